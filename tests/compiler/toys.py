"""Small ops of the compiler's own tests, and a builder of programs over them.

They state only what the compiler reads (result, numpy, kernel, push, cumulate, library), so the
planner is tested apart from the real primitives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covector.ir.avals import ShapedArray
from covector.ir.index import ZERO, affine
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ir.op import Cumulate, Library, Op, Push
from covector.ir.scalar import compare, const, expr, select


class Pointwise(Op):
    """The scalar op `word` of each element."""

    name = "toy_pointwise"
    word: str

    def __repr__(self):
        return self.word

    def result(self, *avals):
        shape = max((a.shape for a in avals), key=len)
        dtype = "bool" if self.word in ("lt", "eq") else avals[-1].dtype
        return ShapedArray(shape, dtype)

    def numpy(self, *xs):
        return NUMPY[self.word](*xs)

    def kernel(self, ask, index):
        args = [ask.at(k, index if s else ()) for k, s in enumerate(ask.shapes)]
        return expr(self.word, ask.out_dtypes[0], *args)


NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "exp": np.exp,
    "sin": np.sin,
    "log": np.log,
    "tanh": np.tanh,
    "max": np.maximum,
    "sqrt": np.sqrt,
    "lt": np.less,
    "eq": np.equal,
    "select": np.where,
    "neg": np.negative,
}


class Cast(Op):
    """The element type changed."""

    name = "toy_cast"
    dtype: str

    def result(self, x):
        return ShapedArray(x.shape, self.dtype)

    def numpy(self, x):
        return x.astype(self.dtype)

    def kernel(self, ask, index):
        return expr("cast", self.dtype, ask.at(0, index))


class Transpose(Op):
    name = "toy_transpose"
    permutation: tuple

    def result(self, x):
        return ShapedArray(tuple(x.shape[d] for d in self.permutation), x.dtype)

    def numpy(self, x):
        return x.transpose(self.permutation)

    def kernel(self, ask, index):
        return ask.at(0, [index[self.permutation.index(d)] for d in range(len(index))])


class Broadcast(Op):
    """Input axis k becomes output axis dims[k]."""

    name = "toy_broadcast"
    shape: tuple
    dims: tuple

    def result(self, x):
        return ShapedArray(self.shape, x.dtype)

    def numpy(self, x):
        middle = [
            x.shape[self.dims.index(d)] if d in self.dims else 1 for d in range(len(self.shape))
        ]
        return np.broadcast_to(x.reshape(middle), self.shape)

    def kernel(self, ask, index):
        return ask.at(
            0, [ZERO if n == 1 else index[d] for n, d in zip(ask.shapes[0], self.dims, strict=True)]
        )


class Slice(Op):
    name = "toy_slice"
    start: tuple
    stop: tuple
    step: tuple

    def result(self, x):
        return ShapedArray(
            tuple(
                max(0, -(-(b - a) // c))
                for a, b, c in zip(self.start, self.stop, self.step, strict=True)
            ),
            x.dtype,
        )

    def numpy(self, x):
        return x[tuple(map(slice, self.start, self.stop, self.step))]

    def kernel(self, ask, index):
        return ask.at(0, [i * c + a for i, a, c in zip(index, self.start, self.step, strict=True)])


class Reverse(Op):
    name = "toy_reverse"
    axes: tuple

    def result(self, x):
        return x

    def numpy(self, x):
        return np.flip(x, self.axes)

    def kernel(self, ask, index):
        shape = ask.shapes[0]
        return ask.at(0, [shape[d] - 1 - i if d in self.axes else i for d, i in enumerate(index)])


class Reshape(Op):
    name = "toy_reshape"
    shape: tuple

    def result(self, x):
        return ShapedArray(self.shape, x.dtype)

    def numpy(self, x):
        return x.reshape(self.shape)

    def kernel(self, ask, index):
        flat: Any = affine(0)
        for n, i in zip(ask.out_shapes[0], index, strict=True):
            flat = flat * n.const + i
        out: list = []
        for n in reversed(ask.shapes[0][1:]):
            flat, rest = ask.divmod(flat, n)
            out.insert(0, rest)
        return ask.at(0, [flat, *out] if ask.shapes[0] else [])


class Pad(Op):
    name = "toy_pad"
    low: tuple
    high: tuple
    number: float

    def result(self, x):
        return ShapedArray(
            tuple(n + a + b for n, a, b in zip(x.shape, self.low, self.high, strict=True)), x.dtype
        )

    def numpy(self, x):
        return np.pad(x, list(zip(self.low, self.high, strict=True)), constant_values=self.number)

    def kernel(self, ask, index):
        for i, a, n in zip(index, self.low, ask.shapes[0], strict=True):
            if ask.piece(i, [a, n])[0] != 1:
                return const(self.number, ask.out_dtypes[0])
        return ask.at(0, [i - a for i, a in zip(index, self.low, strict=True)])


class Concatenate(Op):
    name = "toy_concatenate"
    axis: int

    def result(self, *avals):
        shape = list(avals[0].shape)
        shape[self.axis] = sum(a.shape[self.axis] for a in avals)
        return ShapedArray(tuple(shape), avals[0].dtype)

    def numpy(self, *xs):
        return np.concatenate(xs, self.axis)

    def kernel(self, ask, index):
        k, edge = ask.piece(index[self.axis], [s[self.axis] for s in ask.shapes])
        return ask.at(k, [i - edge if d == self.axis else i for d, i in enumerate(index)])


class Reduce(Op):
    name = "toy_reduce"
    kind: str
    axes: tuple

    def result(self, x):
        return ShapedArray(tuple(n for d, n in enumerate(x.shape) if d not in self.axes), x.dtype)

    def numpy(self, x):
        if self.kind == "max":
            return np.max(
                x, self.axes, initial=-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
            )
        return np.sum(x, self.axes, dtype=np.float64 if x.dtype.kind == "f" else x.dtype).astype(
            x.dtype
        )

    def kernel(self, ask, index):
        kept, shape = iter(index), ask.shapes[0]

        def body(k: Sequence[Any]) -> Any:
            return ask.at(
                0,
                [
                    k[self.axes.index(d)] if d in self.axes else next(kept)
                    for d in range(len(shape))
                ],
            )

        return ask.fold(self.kind, [shape[d] for d in self.axes], body)


class ArgMax(Op):
    name = "toy_argmax"
    axis: int

    def result(self, x):
        return ShapedArray(x.shape[: self.axis] + x.shape[self.axis + 1 :], "int32")

    def numpy(self, x):
        return np.argmax(x, self.axis).astype("int32")

    def kernel(self, ask, index):
        def body(k):
            at = [*index[: self.axis], k[0], *index[self.axis :]]
            return ask.at(0, at), ask.index(k[0], "int32")

        return ask.fold("argmax", [ask.shapes[0][self.axis]], body)[1]


class Iota(Op):
    name = "toy_iota"
    shape: tuple
    axis: int
    dtype: str

    def result(self):
        return ShapedArray(self.shape, self.dtype)

    def numpy(self):
        shape = [-1 if d == self.axis else 1 for d in range(len(self.shape))]
        return np.broadcast_to(
            np.arange(self.shape[self.axis], dtype=self.dtype).reshape(shape), self.shape
        )

    def kernel(self, ask, index):
        return ask.index(index[self.axis], self.dtype)


class Take(Op):
    """Rows of x at positions that wrap round."""

    name = "toy_take"

    def result(self, x, rows):
        return ShapedArray(rows.shape + x.shape[1:], x.dtype)

    def numpy(self, x, rows):
        return x[np.clip(rows, 0, x.shape[0] - 1)]

    def kernel(self, ask, index):
        n = ask.shapes[0][0].const
        row = ask.at(1, index[:1])
        row = select(compare("lt", row, 0), const(0, row.dtype), row)
        row = select(compare("lt", const(n - 1, row.dtype), row), const(n - 1, row.dtype), row)
        return ask.at(0, [ask.data(row), *index[1:]])


class Matmul(Op):
    """x @ y; a library call if `library_from` is at most the number of multiplications."""

    name = "toy_matmul"
    library_from: int

    def result(self, x, y):
        return ShapedArray((x.shape[0], y.shape[1]), x.dtype)

    def numpy(self, x, y):
        return x @ y

    def library(self, x, y):
        work = x.size * y.shape[1]
        return Library("matmul") if work >= self.library_from else None

    def kernel(self, ask, index):
        i, j = index
        return ask.fold(
            "sum", [ask.shapes[0][1]], lambda k: ask.at(0, [i, k[0]]) * ask.at(1, [k[0], j])
        )


class ScatterAdd(Op):
    """base with each of `updates` added to the row that `rows` says, in order."""

    name = "toy_scatter_add"

    def result(self, base, rows, updates):
        return base

    def numpy(self, base, rows, updates):
        out = base.copy()
        for r, u in zip(rows, updates, strict=True):
            if 0 <= r < len(base):
                out[r] += u
        return out

    def push(self, ask):
        n = ask.shapes[0][0].const

        def body(u):
            row = ask.at(1, u[:1])
            inside = compare("lt", const(-1, row.dtype), row) & compare("lt", row, n)
            row = select(inside, row, const(0, row.dtype))
            return [ask.data(row), *u[1:]], ask.at(2, u), "sum", inside

        return Push(0, ask.shapes[2], body)


class UpdateSlice(Op):
    """base with `update` written at `start` (a scalar row number, clamped)."""

    name = "toy_update_slice"

    def result(self, base, update, start):
        return base

    def numpy(self, base, update, start):
        out = base.copy()
        s = int(np.clip(start, 0, len(base) - len(update)))
        out[s : s + len(update)] = update
        return out

    def push(self, ask):
        top = ask.shapes[0][0].const - ask.shapes[1][0].const
        start = ask.at(2, ())
        start = select(compare("lt", start, 0), const(0, start.dtype), start)
        start = select(
            compare("lt", const(top, start.dtype), start), const(top, start.dtype), start
        )
        return Push(
            0,
            ask.shapes[1],
            lambda u: ([ask.data(start) + u[0], *u[1:]], ask.at(1, u), "set", None),
        )


class CumSum(Op):
    name = "toy_cumsum"
    axis: int
    reverse: bool

    def result(self, x):
        return x

    def numpy(self, x):
        x = np.flip(x, self.axis) if self.reverse else x
        out = np.cumsum(x, self.axis, dtype=x.dtype)
        return np.flip(out, self.axis) if self.reverse else out

    def cumulate(self, ask):
        def step(carries, index):
            total = carries[0] + ask.at(0, index)
            return [total], [total]

        return Cumulate(self.axis, self.reverse, [const(0, ask.out_dtypes[0])], step)


class Sort(Op):
    name = "toy_sort"

    def result(self, x):
        return x

    def numpy(self, x):
        return np.sort(x)

    def library(self, x):
        return Library("sort", (0,))


class Build:
    """Writes a Jaxpr: `b.input(shape)`, `b(op, *vars)`, `b.jaxpr(outputs)`."""

    def __init__(self):
        self.invars, self.eqns = [], []

    def input(self, *shape, dtype="float32"):
        self.invars.append(Var(ShapedArray(shape, dtype)))
        return self.invars[-1]

    def __call__(self, op, *args):
        like = next((a for a in args if isinstance(a, Var) and a.aval.dtype != bool), None)
        dtype = like.aval.dtype if like is not None else np.dtype("float32")
        atoms = [
            a if isinstance(a, Var) else Literal(dtype.type(a), ShapedArray((), dtype))
            for a in args
        ]
        made = op.result(*[a.aval for a in atoms])
        outs = [Var(a) for a in (made if op.multiple_results else [made])]
        self.eqns.append(Equation(op, atoms, outs))
        return outs if op.multiple_results else outs[0]

    def __getattr__(self, word):
        if word not in NUMPY:
            raise AttributeError(word)
        return lambda *args: self(Pointwise(word), *args)

    def cut(self, x, *spans):
        a, b, c = zip(*[(*s, 1)[:3] for s in spans], strict=True)
        return self(Slice(a, b, c), x)

    def full(self, x, like, *dims):
        return self(Broadcast(like.aval.shape, dims), x)

    def sum(self, x, *axes):
        return self(Reduce("sum", axes), x)

    def top(self, x, *axes):
        return self(Reduce("max", axes), x)

    def jaxpr(self, *outputs):
        return Jaxpr([], self.invars, outputs, self.eqns)

    def closed(self, *outputs):
        return ClosedJaxpr(self.jaxpr(*outputs), [])


def oracle(jaxpr: Jaxpr, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the program by each op's NumPy rule."""
    env: dict = dict(zip(jaxpr.invars, inputs, strict=True))

    def read(v):
        return v.val if isinstance(v, Literal) else env[v]

    with np.errstate(all="ignore"):
        for eqn in jaxpr.eqns:
            out = eqn.op.numpy(*map(read, eqn.invars))
            for v, x in zip(eqn.outvars, out if eqn.op.multiple_results else [out], strict=True):
                env[v] = np.asarray(x).astype(v.aval.dtype)
    return [np.asarray(read(v)) for v in jaxpr.outvars]


def random_inputs(jaxpr: Jaxpr, seed: int = 0) -> list[np.ndarray]:
    """Inputs of the program's types; integers are small, some of them out of range."""
    rng = np.random.default_rng(seed)
    out = []
    for v in jaxpr.invars:
        if v.aval.dtype.kind == "i":
            out.append(rng.integers(-1, 6, v.aval.shape).astype(v.aval.dtype))
        elif v.aval.dtype == bool:
            out.append(rng.random(v.aval.shape) < 0.5)
        else:
            out.append(rng.standard_normal(v.aval.shape).astype(v.aval.dtype))
    return out


class ToyWhile(Op):
    """As the real `while`: the same name and fields (but not registered under it)."""

    multiple_results = True
    cond_jaxpr: Any
    body_jaxpr: Any
    cond_nconsts: int
    body_nconsts: int

    def result(self, *avals):
        return tuple(avals[self.cond_nconsts + self.body_nconsts :])

    def numpy(self, *xs):
        a, b = self.cond_nconsts, self.cond_nconsts + self.body_nconsts
        carry = list(xs[b:])
        while oracle(self.cond_jaxpr.jaxpr, [*xs[:a], *carry])[0]:
            carry = oracle(self.body_jaxpr.jaxpr, [*xs[a:b], *carry])
        return carry


class ToyScan(Op):
    multiple_results = True
    jaxpr: Any
    length: int
    reverse: bool
    num_consts: int
    num_carry: int

    def result(self, *avals):
        outs = self.jaxpr.out_avals
        rows = [ShapedArray((self.length, *a.shape), a.dtype) for a in outs[self.num_carry :]]
        return (*outs[: self.num_carry], *rows)

    def numpy(self, *xs):
        a, b = self.num_consts, self.num_consts + self.num_carry
        consts, carry, rows = xs[:a], list(xs[a:b]), xs[b:]
        ys = [[None] * self.length for _ in self.jaxpr.out_avals[self.num_carry :]]
        for i in range(self.length)[:: -1 if self.reverse else 1]:
            new = oracle(self.jaxpr.jaxpr, [*consts, *carry, *[x[i] for x in rows]])
            carry = new[: self.num_carry]
            for column, y in zip(ys, new[self.num_carry :], strict=True):
                column[i] = y
        outs = self.jaxpr.out_avals[self.num_carry :]
        empty = [np.zeros((0, *a.shape), a.dtype) for a in outs]
        return [*carry, *(np.stack(c) if c else e for c, e in zip(ys, empty, strict=True))]


class ToyCond(Op):
    multiple_results = True
    branches: tuple

    def result(self, index, *avals):
        return tuple(self.branches[0].out_avals)

    def numpy(self, index, *xs):
        which = int(np.clip(index, 0, len(self.branches) - 1))
        return oracle(self.branches[which].jaxpr, xs)


ToyWhile.name, ToyScan.name, ToyCond.name = "while", "scan", "cond"
