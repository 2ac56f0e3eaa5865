"""The carry of a loop: traced bodies, start values brought to a fixed point, what does not fit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from covector import dtypes, ops, tree
from covector._base import log
from covector._base.config import config
from covector._base.named_tuple import NamedTuple
from covector.api.arguments import Flat, avals_of, name_of
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from covector.trace import purity
from covector.trace.cache import node_types, shared
from covector.trace.stage import known_inputs, trace_to_jaxpr
from covector.tree_util import keystr


def lift(program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """(the program with its constants as leading arguments, the constants)."""
    body = program.jaxpr

    def make() -> ClosedJaxpr:
        return ClosedJaxpr(body.replace(constvars=[], invars=[*body.constvars, *body.invars]))

    return once(body, "lifted", make), [as_array(c) for c in program.consts]


def once(body: Jaxpr, key: Any, make: Callable[[], Any]) -> Any:
    """`make()`, remembered on a program: what is made of an equal function's is found again."""
    found = body.derived.get(key)
    return body.derived.setdefault(key, make()) if found is None else found


def lift_together(programs: Sequence[ClosedJaxpr]) -> tuple[list[ClosedJaxpr], list[Any]]:
    """As `lift`, of programs that are to take the same arguments: all constants of all of them."""
    consts = list({id(c): c for p in programs for c in p.consts}.values())
    avals = avals_of(consts)
    number = {id(c): n for n, c in enumerate(consts)}
    out: list[ClosedJaxpr] = []
    for program in programs:
        places = tuple([number[id(c)] for c in program.consts])
        key = ("lifted", avals, places)
        out.append(once(program.jaxpr, key, lambda p=program, at=places: _among(p, at, avals)))
    return out, [as_array(c) for c in consts]


def _among(program: ClosedJaxpr, places: Sequence[int], avals: Sequence[ShapedArray]) -> Any:
    """The program with its constants at these places of leading arguments."""
    body = program.jaxpr
    own = dict(zip(places, body.constvars, strict=True))
    filled = [own[n] if n in own else Var(a) for n, a in enumerate(avals)]
    return ClosedJaxpr(body.replace(constvars=[], invars=[*filled, *body.invars]))


class Body(NamedTuple):
    """A traced loop body, and the carry it takes."""

    program: ClosedJaxpr
    leaves: list[Any]
    avals: list[ShapedArray]
    out_tree: Any


def fixed_point(
    who: str,
    fun: Any,
    init: Any,
    trace: Callable[[Sequence[ShapedArray]], tuple[Any, Any, Any]],
    rows: Sequence[Any] = (),
) -> Body:
    """Traces a body at the types of the carry, until it gives what it takes.

    `trace(carry avals)` -> (program, structure of the carry it gives, of all it gives).  Start
    values of weak type become what the body gives.  Raises TypeError, with the parts that differ.
    rows: what the body takes after the carry.
    """
    leaves, in_tree = tree.flatten(init)
    while True:  # ends, since each value becomes strong, or different along an axis, but once
        avals = list(avals_of(leaves))
        with known_inputs([*leaves, *rows]) as inputs:
            program, carry_tree, out_tree = trace(avals)
        if carry_tree != in_tree:
            raise TypeError(
                f"{who}: the carry that {name_of(fun)} returns must have the structure of the one "
                f"it takes.\n  It takes    {in_tree}\n  and returns {carry_tree}"
            )
        outs = program.out_avals[: len(leaves)]
        if avals == outs:
            wider = None if inputs is None else inputs.widened(program, leaves)
            if wider is None:
                break
            leaves = wider
            continue
        if not all(map(_fits, avals, outs)):
            raise TypeError(_mismatch(who, fun, init, avals, outs))
        leaves = [_as_type(x, a, b) for x, a, b in zip(leaves, avals, outs, strict=True)]
        if avals_of(leaves) == tuple(avals):
            break
    return Body(program, [as_array(x) for x in leaves], avals, out_tree)


def _fits(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether a value that is `a` may become `b`."""
    return a.shape == b.shape and (a.dtype == b.dtype or _yields(a, b))


def _yields(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether a weakly typed `a` takes the dtype of `b` where both meet."""
    ranks = [_KINDS.find(dtypes.kind_of(x.dtype).replace("u", "i")) for x in (a, b)]
    return a.weak_type and 0 <= ranks[0] <= ranks[1]


#: Of numbers, in the order of promotion.
_KINDS = "ifc"


def _as_type(x: Any, a: ShapedArray, b: ShapedArray) -> Any:
    if a is b or (a.dtype == b.dtype and b.weak_type):
        return x
    return ops.cast.convert_element_type(x, b.dtype, False)


def _mismatch(
    who: str, fun: Any, init: Any, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> str:
    """A table: where in the carry, the type that goes in, the one that comes out, what to do."""
    paths = [keystr(path) or "the carry" for path, _ in tree.flatten_with_path(init)[0]]
    rows = [
        (path, a.str_short(), b.str_short(), _advice(a, b))
        for path, a, b in zip(paths, avals, outs, strict=True)
        if not _fits(a, b)
    ]
    head = ("carry", "type in", "type out", "to change")
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(3)]
    lines = [
        "  " + "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[3]])
        for row in (head, *rows)
    ]
    return (
        f"{who}: the carry that {name_of(fun)} returns must have the types of the one it takes, "
        "but they differ:\n" + "\n".join(lines)
    )


def _advice(a: ShapedArray, b: ShapedArray) -> str:
    if a.shape != b.shape:
        return f"give an initial value of shape {b.shape}, or return one of shape {a.shape}"
    if dtypes.promote_types(a.dtype, b.dtype) == b.dtype:
        return f"give an initial value of dtype {b.dtype}, or return x.astype({str(a.dtype)!r})"
    return f"return x.astype({str(a.dtype)!r})"


def run_flat(fun: Any, args: tuple[Any, ...], avals: Sequence[ShapedArray]) -> tuple[Any, Any]:
    """(program, structure of the result) of `fun` at the structure of `args`.

    Traced unless an equal function was; see `trace.cache`.
    """
    in_tree, name = tree.structure((args, {})), name_of(fun)
    guarded = config.purity_guard != "off"

    def trace() -> tuple[ClosedJaxpr, Any]:
        start = time.perf_counter()
        flat = Flat(fun, in_tree)
        with purity.observed(fun, name) if guarded else contextlib.nullcontext():
            program = trace_to_jaxpr(flat, avals, name)
        log.compiles("traced %s in %.6f s", name, time.perf_counter() - start)
        return program, flat.out_tree

    key = ("body", in_tree, tuple(avals))
    return shared(fun, key, trace, degrade=not guarded, also=node_types(in_tree))
