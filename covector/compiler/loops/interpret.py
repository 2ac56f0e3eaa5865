"""The meaning of a loop program, slowly: runs a kernel over NumPy arrays, element by element.

An oracle for emitters and for the planner.  With `lanes=True` every vector loop runs as a whole,
as NumPy vectors: equal results show that its iterations are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from covector.compiler.loops.program import (
    Fold,
    For,
    If,
    Kernel,
    Let,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)
from covector.compiler.math.evaluate import evaluate
from covector.compiler.math.formats import numpy_dtype
from covector.ir.index import Affine, Data, Quotient
from covector.ir.scalar import Expr, expr, name

Env = dict[str, Any]


def interpret(
    kernel: Kernel,
    buffers: Sequence[np.ndarray],
    symbols: Sequence[int] = (),
    *,
    lanes: bool = False,
) -> None:
    """Run `kernel` on its buffers (those that are not scratch, in order), which it writes."""
    _Machine(kernel, buffers, symbols, lanes).run()


@final
class _Machine:
    __slots__ = ("arrays", "kernel", "lanes", "symbols")

    def __init__(
        self, kernel: Kernel, buffers: Sequence[np.ndarray], symbols: Sequence[int], lanes: bool
    ) -> None:
        self.kernel, self.lanes = kernel, lanes
        self.symbols: Env = dict(zip(kernel.symbols, symbols, strict=True))
        given = iter(buffers)
        self.arrays: dict[str, np.ndarray] = {}
        for b in kernel.buffers.values():
            dtype = numpy_dtype(b.dtype)
            shape = tuple(int(self.index(n, self.symbols)) for n in b.shape)
            if b.home == "scratch":
                self.arrays[b.name] = _garbage(shape, dtype)
                continue
            array = next(given)
            if array.dtype != dtype:
                raise TypeError(f"{kernel.name}: buffer {b.name} is {array.dtype}, not {dtype}")
            if b.strides is not None:
                strides = [int(self.index(s, self.symbols)) * dtype.itemsize for s in b.strides]
                flat = array.reshape(-1)
                array = np.lib.stride_tricks.as_strided(flat, shape, strides)
            elif array.shape != shape:
                array = array.reshape(shape)  # a view: buffers are dense
                assert np.shares_memory(array, array.base) or not array.size
            self.arrays[b.name] = array

    def run(self) -> None:
        self.body(self.kernel.body, dict(self.symbols))

    # Values

    def index(self, i: Affine, env: Env) -> Any:
        total: Any = i.const
        for atom, c in i.terms:
            if isinstance(atom, Data):
                v: Any = self.value(atom.value, env).astype(np.int64)
            elif isinstance(atom, Quotient):
                inner = self.index(atom.index, env)
                v = inner // atom.n if atom.kind == "div" else inner % atom.n
            else:
                v = env[atom]
            total = total + c * v
        return total

    def value(self, e: Expr, env: Env) -> np.ndarray:
        def leaf(node: Expr) -> Any:
            if node.op == "load":
                buffer, index = node.extra
                return self.arrays[buffer][self.place(buffer, index, env)]
            if node.op == "index":
                return np.asarray(self.index(node.extra, env)).astype(numpy_dtype(node.dtype))
            return env[node.extra]

        return evaluate(e, {}, leaf)

    def place(self, buffer: str, index: Sequence[Affine], env: Env) -> tuple[Any, ...]:
        at = tuple(self.index(i, env) for i in index)
        for i, n in zip(at, self.arrays[buffer].shape, strict=True):
            if np.any(np.asarray(i) < 0) or np.any(np.asarray(i) >= n):
                raise IndexError(f"{self.kernel.name}: {buffer}{list(map(str, index))} at {at}")
        return at

    # Statements

    def body(self, statements: Sequence[Statement], env: Env) -> None:
        for s in statements:
            _RUN[type(s)](self, s, env)

    def store(self, s: Store, env: Env) -> None:
        at = self.place(s.buffer, s.index, env)
        value = self.value(s.value, env)
        if s.where is not None:
            value = np.where(self.value(s.where, env), value, self.arrays[s.buffer][at])
        self.arrays[s.buffer][at] = value

    def update(self, s: Update, env: Env) -> None:
        at, array = self.place(s.buffer, s.index, env), self.arrays[s.buffer]
        new = combine(s.kind, s.value.dtype, (array[at],), (self.value(s.value, env),))[0]
        if s.where is not None:
            new = np.where(self.value(s.where, env), new, array[at])
        array[at] = new

    def let(self, s: Let, env: Env) -> None:
        env[s.name] = self.value(s.value, env)

    def loop(self, s: For, env: Env) -> None:
        low, high = self.index(s.low, env), self.index(s.high, env)
        if s.mode == "vector" and self.lanes:
            if high > low:
                self.body(s.body, {**env, s.axis: np.arange(low, high)})
            return
        for i in range(low, high):
            self.body(s.body, {**env, s.axis: i})

    def fold(self, s: Fold, env: Env) -> None:
        kinds = [(r.kind, r.dtypes) for r in s.results]
        totals = [
            tuple(_identity(k, d)) if r.init is None else (self.value(r.init, env),)
            for (k, d), r in zip(kinds, s.results, strict=True)
        ]

        def nest(loops: Sequence[Any], env: Env) -> None:
            if loops:
                axis, low, high = loops[0]
                if self.lanes and axis == s.vector and len(loops) == 1:
                    i = np.arange(self.index(low, env), self.index(high, env))
                    if i.size:
                        nest([], {**env, axis: i})
                    return
                for i in range(self.index(low, env), self.index(high, env)):
                    nest(loops[1:], {**env, axis: i})
                return
            env = dict(env)
            self.body(s.stores, env)
            for k, r in enumerate(s.results):
                values = tuple(self.value(v, env) for v in r.values)
                lanes = [i.size for i in env.values() if isinstance(i, np.ndarray) and i.ndim]
                if self.lanes and s.vector is not None and lanes:
                    values = _across(r.kind, r.dtypes[0], values, lanes[0])
                totals[k] = combine(r.kind, r.dtypes[0], totals[k], values)

        nest(s.loops, env)
        for r, total in zip(s.results, totals, strict=True):
            env.update(zip(r.names, total, strict=True))

    def scan(self, s: Scan, env: Env) -> None:
        low, high = self.index(s.low, env), self.index(s.high, env)
        carried = {n: self.value(e, env) for n, e in s.carries}
        for i in range(high - 1, low - 1, -1) if s.reverse else range(low, high):
            inner = {**env, **carried, s.axis: i}
            self.body(s.body, inner)
            new = [self.value(e, inner) for e in s.next]
            carried = dict(zip(carried, new, strict=True))
        env.update(carried)

    def repeat(self, s: Repeat, env: Env) -> None:
        carried = {n: self.value(e, env) for n, e in s.carries}
        while np.any(going := self.value(s.condition, {**env, **carried})):
            inner = {**env, **carried}
            if np.ndim(going):  # lanes that have ended must not loop inside either
                inner = {k: _of_those(v, going) for k, v in inner.items()}
            self.body(s.body, inner)
            new = [self.value(e, inner) for e in s.next]
            carried = {
                n: _merged(going, old, v) for (n, old), v in zip(carried.items(), new, strict=True)
            }
        env.update(carried)

    def branch(self, s: If, env: Env) -> None:
        self.body(s.body if np.all(self.value(s.condition, env)) else s.orelse, env)


def _of_those(value: Any, going: np.ndarray) -> Any:
    return value[going] if isinstance(value, np.ndarray) and value.ndim else value


def _merged(going: Any, old: Any, new: Any) -> Any:
    if not np.ndim(going):
        return new
    out = np.broadcast_to(old, np.shape(going)).copy()
    out[going] = new
    return out


_RUN: dict[type, Any] = {
    Store: _Machine.store,
    Update: _Machine.update,
    Let: _Machine.let,
    For: _Machine.loop,
    Fold: _Machine.fold,
    Scan: _Machine.scan,
    Repeat: _Machine.repeat,
    If: _Machine.branch,
}

_COMBINE = {"sum": "add", "prod": "mul"}
_PLAIN = {"add": np.add, "mul": np.multiply}


def combine(
    kind: str, dtype: str, old: tuple[Any, ...], new: tuple[Any, ...]
) -> tuple[np.ndarray, ...]:
    """One step of a fold."""
    if kind in ("argmax", "argmin"):
        (a, i), (b, j) = old, new
        with np.errstate(invalid="ignore"):
            better = b > a if kind == "argmax" else b < a
            nan, was = b != b, a != a
        take = np.where(was, nan & (j < i), nan | better | (b == a) & (j < i))
        return np.where(take, b, a), np.where(take, j, i)
    op = _COMBINE.get(kind, kind)
    if op in _PLAIN and np.asarray(old[0]).dtype.kind in "iufc":
        with np.errstate(all="ignore"):
            return (np.asarray(_PLAIN[op](old[0], new[0])),)
    env = {"old": old[0], "new": new[0]}
    return (evaluate(expr(op, dtype, name("old", dtype), name("new", dtype)), env),)


def _across(
    kind: str, dtype: str, values: tuple[np.ndarray, ...], lanes: int
) -> tuple[np.ndarray, ...]:
    """All lanes of a fold's values combined."""
    columns = [np.broadcast_to(v, (lanes,)) for v in values]
    total = tuple(c[0] for c in columns)
    for k in range(1, lanes):
        total = combine(kind, dtype, total, tuple(c[k] for c in columns))
    return total


def identity(kind: str, dtype: str) -> Any:
    """The number that `kind` leaves every other one unchanged with, as a Python number."""
    d = numpy_dtype(dtype)
    if kind == "sum":
        return -0.0 if d.kind == "f" else d.type(0).item() if d.kind != "V" else 0.0
    if kind == "prod":
        return 1
    if kind in ("and", "or", "xor"):
        return (True if d.kind == "b" else -1) if kind == "and" else 0
    high = kind in ("min", "argmin")
    if d.kind == "b":
        return high
    if d.kind in "iu":
        info = np.iinfo(d)
        return int(info.max if high else info.min)
    return float("inf") if high else float("-inf")


def _identity(kind: str, dtypes: Sequence[str]) -> list[np.ndarray]:
    out = [np.asarray(identity(kind, dtypes[0])).astype(numpy_dtype(dtypes[0]))]
    if len(dtypes) > 1:  # an index that any other beats
        out.append(np.asarray(np.iinfo(dtypes[1]).max, numpy_dtype(dtypes[1])))
    return out


def _garbage(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Fresh memory with values that show if they are read."""
    out = np.ones(shape, dtype)
    if dtype.kind in "fcV":
        out.fill(np.nan)
    return out
