"""Random loop programs: machine code against the interpreter, on every kind of target.

Programs are well formed by construction: indices stay in bounds, vector loops have independent
iterations, and a buffer that is read is not written in the same loop.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covector.backends.cpu.emit import spread
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import (
    Accumulator,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Scan,
    Store,
    Update,
)
from covector.ir.index import Affine, Data, Quotient, affine
from covector.ir.scalar import Expr, cast, compare, const, expr, name, select
from tests.backends.harness import at, blank, buffer, check, values

ZERO = Affine()
TYPES = ["float32", "float32", "float64", "int32", "int64", "int8", "uint16", "bool", "complex64"]
BINARY = {
    "f": ["add", "sub", "mul", "max", "min"],
    "i": ["add", "sub", "mul", "div", "rem", "max", "xor"],
    "b": ["and", "or", "xor"],
    "c": ["add", "sub", "mul"],
}


def kind(dtype: str) -> str:
    return dtype[0] if dtype[0] in "fbc" else "i"


class Maker:
    """Grows one random kernel over a two-dimensional domain."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes = {
            "m": rng.choice([1, 2, 3, 5, 9]),
            "n": rng.choice([1, 3, 7, 8, 9, 16, 17, 33]),
        }
        self.symbolic = rng.random() < 0.4
        self.buffers = {}
        self.arrays = {}
        self.count = 0

    def extent(self, axis: str) -> Affine:
        return affine(axis) if self.symbolic else Affine(self.sizes[axis])

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def array(self, home: str, dtype: str, dims: str) -> str:
        label = self.fresh("b")
        shape = [self.extent(d) for d in dims]
        self.buffers[label] = buffer(label, shape, dtype, home)
        sizes = [self.sizes[d] for d in dims]
        fill = blank(sizes, dtype) if home == "out" else self.data(sizes, dtype)
        self.arrays[label] = fill
        return label

    def data(self, sizes, dtype):
        if kind(dtype) in "fc":  # small whole numbers: sums are exact in any order
            rng = np.random.default_rng(self.count)
            re, im = (rng.integers(-4, 5, sizes) for _ in range(2))
            return (re + 1j * im).astype(dtype) if dtype[0] == "c" else re.astype(dtype)
        return values(sizes, dtype, self.count)

    def index(self, axis: str, dim: str) -> Affine:
        """Some index within `dim` as `axis` runs over it."""
        rng, i = self.rng, affine(axis)
        choice = rng.random()
        if choice < 0.7:
            return i
        if choice < 0.8:
            return self.extent(dim) - 1 - i
        if choice < 0.9:
            return affine(Quotient("div", i, rng.choice([2, 3, 8])))
        n = self.sizes[dim]
        places = self.array("in", "int32", dim)
        self.arrays[places] = np.random.default_rng(self.count).integers(0, n, n).astype(np.int32)
        return affine(Data(at(places, axis, dtype="int32")))

    def leaf(self, dtype: str, axes: dict[str, str]) -> Expr:
        """axes: axis -> the extent it runs over."""
        rng = self.rng
        if rng.random() < 0.15:
            return const(True if dtype == "bool" else rng.choice([0, 1, 2, 3]), dtype)
        if rng.random() < 0.1 and dtype != "bool" and axes:
            return expr("index", dtype, extra=affine(rng.choice(sorted(axes))) * 2 + 1)
        dims = [a for a in axes if rng.random() < 0.8]
        if rng.random() < 0.3:
            dims.reverse()
        label = self.array("in", dtype, "".join(axes[a] for a in dims))
        return at(label, *(self.index(a, axes[a]) for a in dims), dtype=dtype)

    def value(self, dtype: str, axes: dict[str, str], depth: int, known=()) -> Expr:
        rng = self.rng
        same = [name(n, d) for n, d in known if d == dtype]
        if same and rng.random() < 0.5:
            return rng.choice(same)
        if depth == 0 or rng.random() < 0.2:
            return self.leaf(dtype, axes)
        choice = rng.random()
        if choice < 0.15:
            other = rng.choice(TYPES)
            return cast(self.value(other, axes, depth - 1, known), dtype)
        if choice < 0.3:
            other = rng.choice(TYPES)
            x, y = (self.value(other, axes, depth - 1, known) for _ in range(2))
            condition = compare("eq" if other[0] == "c" else rng.choice(["lt", "eq", "ge"]), x, y)
            if dtype == "bool":
                return condition
            return select(
                condition,
                self.value(dtype, axes, depth - 1, known),
                self.value(dtype, axes, depth - 1, known),
            )
        x, y = (self.value(dtype, axes, depth - 1, known) for _ in range(2))
        return expr(rng.choice(BINARY[kind(dtype)]), dtype, x, y)

    # Statements over an outer axis i (extent m) and an inner j (extent n)

    def store(self, axes, known=(), scratch=None) -> Store:
        rng = self.rng
        dtype = rng.choice(TYPES)
        dims = list(axes)
        label = self.array("out", dtype, "".join(axes[a] for a in dims))
        where = None
        if rng.random() < 0.15:
            where = self.value("bool", axes, 1, known)
        value = self.value(dtype, axes, 2, known)
        return Store(label, tuple(affine(a) for a in dims), value, where)

    def fold(self, outer: dict[str, str], lanes: bool) -> tuple[Fold, list]:
        rng = self.rng
        axis, dim = self.fresh("k"), rng.choice("mn")
        axes = {**outer, axis: dim}
        results, known = [], []
        for _ in range(rng.randint(1, 3)):
            dtype = rng.choice(TYPES)
            choices = {
                "f": ["sum", "max", "min"],
                "i": ["sum", "max", "min", "xor"],
                "b": ["and", "or"],
                "c": ["sum"],
            }
            how = rng.choice([*choices[kind(dtype)], *(["argmax"] if dtype[0] != "c" else [])])
            names = (self.fresh("s"),)
            value = self.value(dtype, axes, 1)
            init = self.leaf(dtype, {}) if rng.random() < 0.3 and how != "argmax" else None
            if how == "argmax":
                names = (*names, self.fresh("s"))
                place = expr("index", "int32", extra=affine(axis))
                results.append(Accumulator(names, how, (dtype, "int32"), (value, place)))
                known += [(names[0], dtype), (names[1], "int32")]
            else:
                results.append(Accumulator(names, how, (dtype,), (value,), init))
                known.append((names[0], dtype))
        vector = axis if lanes and rng.random() < 0.8 else None
        loops = [(axis, ZERO, self.extent(dim))]
        return Fold(loops, results, [], vector, rng.choice([1, 2, 4])), known

    def scan(self, axes) -> tuple[list, list]:
        rng = self.rng
        axis, dim = self.fresh("k"), rng.choice("mn")
        dtype = rng.choice(["float32", "int32", "int64", "complex64"])
        carry = self.fresh("c")
        inner = {**axes, axis: dim}
        following = self.value(dtype, inner, 1, [(carry, dtype)])
        body = [self.store(inner, [(carry, dtype)])] if rng.random() < 0.7 else []
        s = Scan(
            axis,
            ZERO,
            self.extent(dim),
            [(carry, self.leaf(dtype, axes))],
            body,
            [following],
            rng.random() < 0.4,
        )
        return [s], [(carry, dtype)]

    def inner(self, outer: dict[str, str]) -> list:
        """Statements at the depth of the outer axis."""
        rng = self.rng
        out, known = [], []
        for _ in range(rng.randint(1, 3)):
            choice = rng.random()
            if choice < 0.35:
                f, names = self.fold(outer, True)
                out.append(f)
                known += names
            elif choice < 0.45:
                label = self.fresh("l")
                dtype = rng.choice(TYPES)
                out.append(Let(label, self.value(dtype, outer, 2, known)))
                known.append((label, dtype))
            elif choice < 0.6:
                out += self.lanes_loop(outer, known)
            elif choice < 0.7 and outer:
                condition = self.value("bool", outer, 1, known)
                inside = [self.store(outer, known)]
                out.append(
                    If(condition, inside, [] if rng.random() < 0.5 else [self.store(outer, known)])
                )
            else:
                out.append(self.store(outer, known))
        return out

    def lanes_loop(self, outer, known) -> list:
        """A vector loop, perhaps with a fold, a scan or an update inside it."""
        rng = self.rng
        axes = {**outer, "j": "n"}
        body, names = [], list(known)
        if rng.random() < 0.3:
            f, more = self.fold(axes, False)
            body.append(f)
            names += more
        if rng.random() < 0.2:
            s, more = self.scan(axes)
            body += s
            names += more
        body += [self.store(axes, names) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.2:
            label = self.array("inout", "int32", "n")
            body.append(Update(label, (affine("j"),), "sum", self.value("int32", axes, 1, names)))
        mode = rng.choice(["vector", "vector", "vector", "serial", "parallel"])
        return [For("j", ZERO, self.extent("n"), body, mode, rng.choice([1, 2, 3]))]

    def kernel(self) -> Kernel:
        rng = self.rng
        body = []
        for _ in range(rng.randint(1, 2)):
            if rng.random() < 0.2:
                i, j = affine("i"), affine("j")
                x = self.array("in", "float32", "nm")
                y = self.array("out", "float32", "mn")
                inside = [Store(y, (i, j), at(x, "j", "i") + 1.0)]
                loop = For("j", ZERO, self.extent("n"), inside, "vector")
                body.append(For("i", ZERO, self.extent("m"), [loop], "tile"))
            else:
                unroll = rng.choice([1, 1, 2])
                body.append(
                    For("i", ZERO, self.extent("m"), self.inner({"i": "m"}), "serial", unroll)
                )
        symbols = ("m", "n") if self.symbolic else ()
        return Kernel("f", dict(self.buffers), body, symbols)


def targets() -> dict[str, Target]:
    h = host()
    make = lambda **kw: Target(h.triple, h.cpu, h.features, **kw)  # noqa: E731
    return {
        "native": h,
        "threads": h,
        "masked": make(tail="masked"),
        "epilogue": make(tail="epilogue"),
        "narrow": make(vector_bytes=16),
        "wide": make(vector_bytes=64),
    }


def one(seed: int, target: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if target == "threads":  # every loop that may be is spread over the workers
            patch.setattr(spread, "WORTH", 0)
            patch.setattr(spread, "QUANTUM", 1)
        run_one(seed, target)


def run_one(seed: int, target: str) -> None:
    rng = random.Random(seed)
    maker = Maker(rng)
    kernel = maker.kernel()
    # In-place updates with several rows side by side are the planner's to avoid: so does this.
    arrays = [maker.arrays[b] for b in kernel.buffers]
    symbols = [maker.sizes[s] for s in kernel.symbols]
    check(kernel, arrays, symbols, rtol=1e-6, target=targets()[target])


@pytest.mark.parametrize("target", ["native", "threads", "masked", "epilogue", "narrow", "wide"])
@given(st.integers(0, 10**9))
@settings(max_examples=25)
def test_random_programs(target, seed):
    one(seed, target)
