"""Programs run one after the other, as one program: eager composites without their Python.

A small Jaxpr becomes the list of its operations' own eager programs, with constants hidden and
intermediates in the arena: nothing is compiled, and the numbers are those of eager evaluation.
An operation that only gives the same elements another shape is no step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import Atom, ClosedJaxpr, Equation, Literal, Var
from covector.runtime.array import Array, from_numpy
from covector.runtime.backend import NativeCode
from covector.runtime.native import native

#: Equations of the longest sequence: beyond that, Python's share of the time is small.
LONGEST: Final = 32
_ALIGN: Final = 64

#: A place of a value: ('hidden' | 'argument' | 'output' | 'arena', number or offset).
Place = tuple[str, int]


def sequence(closed: ClosedJaxpr, find: Callable[[Any, Any], Any]) -> NativeCode | None:
    """A program for `closed` made of its equations' own; None if that cannot be.

    find: (op, avals) -> executable; those with `code` (NativeCode) will do.
    """
    runtime = native()
    jaxpr = closed.jaxpr
    if runtime is None or len(jaxpr.eqns) > LONGEST or jaxpr.effects:
        return None
    builder = _Builder(closed)
    for i, eqn in enumerate(jaxpr.eqns):
        if eqn.outvars[0] in builder.same:
            continue
        code = getattr(find(eqn.op, tuple(v.aval for v in eqn.invars)), "code", None)
        if code is None or code.after is not None:
            return None
        builder.add(i, eqn, code)
    return builder.finish(runtime.run_sequence)


class _Builder:
    """Places values, and collects steps: (code or None, bytes, operands)."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        jaxpr = closed.jaxpr
        self.jaxpr = jaxpr
        self.steps: list[tuple[NativeCode | None, int, list[Place]]] = []
        self.hidden: list[Array] = []
        self.places: dict[Var, Place] = {v: ("argument", i) for i, v in enumerate(jaxpr.invars)}
        for v, value in zip(jaxpr.constvars, closed.consts, strict=True):
            self.places[v] = self.hide(value, v.aval)
        #: A variable -> the one whose elements it has, in the same order.
        self.same: dict[Any, Var] = {}
        for eqn in jaxpr.eqns:
            x = self.origin(eqn.invars[0]) if _only_reshapes(eqn) else None
            if isinstance(x, Var):
                self.same[eqn.outvars[0]] = x
        self.last_use = {
            self.origin(v): i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars
            if isinstance(v, Var)
        }  # fmt: skip
        self.arena = _Arena()
        self.outputs: dict[Var, int] = {}
        for i, v in enumerate(map(self.origin, jaxpr.outvars)):
            if isinstance(v, Var) and v not in self.places:
                self.outputs.setdefault(v, i)

    def origin(self, atom: Any) -> Any:
        return self.same.get(atom, atom) if isinstance(atom, Var) else atom

    def hide(self, value: Any, aval: ShapedArray) -> Place:
        self.hidden.append(value if type(value) is Array else from_numpy(np.asarray(value), aval))
        return "hidden", len(self.hidden) - 1

    def read(self, atom: Atom) -> Place:
        if isinstance(atom, Literal):
            return self.hide(atom.val, atom.aval)
        return self.places[self.origin(atom)]

    def add(self, number: int, eqn: Equation, code: NativeCode) -> None:
        """The step of one equation."""
        operands: list[Place] = [("hidden", len(self.hidden) + i) for i in range(len(code.hidden))]
        self.hidden.extend(code.hidden)
        operands += [self.read(v) for v in eqn.invars]
        for v in eqn.outvars:
            if isinstance(v, Var) and v in self.outputs:
                self.places[v] = ("output", self.outputs[v])
            else:
                end = self.last_use.get(v, number)
                place = ("arena", self.arena.take(v.aval.nbytes, number, end))
                self.places[v] = place  # type: ignore[index]
            operands.append(self.places[v])  # type: ignore[index]
        room = self.arena.take(code.arena, number, number) if code.arena else 0
        operands.append(("arena", room))
        self.steps.append((code, 0, operands))

    def finish(self, address: int) -> NativeCode:
        """The whole program; outputs that are arguments, constants or repeated are copied."""
        for i, v in enumerate(self.jaxpr.outvars):
            if not (isinstance(v, Var) and self.outputs.get(self.origin(v)) == i):
                self.steps.append((None, v.aval.nbytes, [self.read(v), ("output", i)]))
        arguments, outputs = len(self.jaxpr.invars), len(self.jaxpr.outvars)
        first = {
            "hidden": 0,
            "argument": len(self.hidden),
            "output": len(self.hidden) + arguments,
        }
        widest = max((len(operands) for _, _, operands in self.steps), default=0)
        words = [len(self.steps), len(self.hidden) + arguments + outputs, widest]
        kept: list[Any] = []
        for code, nbytes, operands in self.steps:
            where = 0 if code is None else code.address
            numbers = nbytes if code is None else _numbers(code, kept)
            words += [where, numbers, len(operands)]
            for kind, n in operands:
                words.append(2 * n + 1 if kind == "arena" else 2 * (first[kind] + n))
        return NativeCode(
            address,
            hidden=self.hidden,
            arena=self.arena.size,
            symbols=words,
            nanoseconds=sum(code.nanoseconds for code, _, _ in self.steps if code is not None),
            keep=(kept, [code for code, _, _ in self.steps]),
        )


def _numbers(code: NativeCode, kept: list[Any]) -> int:
    """The address of a program's own symbols."""
    symbols = np.array(code.symbols or (0,), np.int64)
    kept.append(symbols)
    return symbols.ctypes.data


def _only_reshapes(eqn: Equation) -> bool:
    """Whether the result has the elements of the argument in the same order."""
    op = eqn.op
    if type(op) is ops.shape.BroadcastInDim:
        dims = op.broadcast_dimensions
        same_size = eqn.outvars[0].aval.size == eqn.invars[0].aval.size
        return same_size and list(dims) == sorted(dims)
    return type(op) in (ops.shape.Reshape, ops.shape.Squeeze)


class _Arena:
    """Offsets for values by the span of equations they live through: the lowest that is free."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int, int]] = []  # (offset, end offset, last equation)
        self.size = 0

    def take(self, nbytes: int, start: int, end: int) -> int:
        """The offset of so many bytes that are needed in equations `start` to `end`."""
        size = -(-max(nbytes, 1) // _ALIGN) * _ALIGN
        offset = 0
        for low, high, last in sorted(self.taken):
            if last >= start and low < offset + size and offset < high:
                offset = high
        self.taken.append((offset, offset + size, end))
        self.size = max(self.size, offset + size)
        return offset
