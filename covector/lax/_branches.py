"""Branches that are traced, of which one runs: `cond`, `switch`, `platform_dependent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector._base.config import config
from covector.api.arguments import avals_of, check_callable, check_values, name_of
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.values import typeof
from covector.lax._carry import lift_together, run_flat
from covector.ops.control import Cond
from covector.trace.stage import known_inputs, trace_to_jaxpr
from covector.trace.tracer import Tracer
from covector.tree_util import keystr

_MISSING: Any = object()


def cond(
    pred: Any,
    true_fun: Any,
    false_fun: Any,
    *operands: Any,
    operand: Any = _MISSING,
    linear: Any = None,
) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`; both are traced, one runs.

    `pred`: a scalar, true where it is not zero.  Both functions must give results of the same
    structure, shapes and dtypes.  The old form `cond(pred, true_operand, true_fun, false_operand,
    false_fun)` is understood too.  Raises TypeError, with the parts that differ, otherwise.

    >>> from covector import lax
    >>> float(lax.cond(3 > 2, lambda x: x + 1, lambda x: x - 1, 5.0))
    6.0
    """
    del linear
    if operand is not _MISSING:
        if operands:
            raise TypeError("cond: give operands by position, or operand=; not both")
        operands = (operand,)
    if not callable(true_fun) or not callable(false_fun):
        return _old_form(pred, true_fun, false_fun, operands)
    aval = typeof(pred)
    if aval.shape:
        raise TypeError(
            f"cond: pred must be a scalar; got {aval.str_short()}. To choose element by element, "
            "use select or numpy.where; for one choice per example, use vmap"
        )
    if not dtypes.issubdtype(aval.dtype, np.number) and aval.dtype != np.bool_:
        raise TypeError(f"cond: pred must be a boolean or a number; got {aval.str_short()}")
    if config.disable_jit and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    pred = as_array(pred)
    if aval.dtype != np.bool_:
        pred = ops.pointwise.ne(pred, aval.dtype.type(0))
    index = ops.cast.convert_element_type(pred, np.dtype(np.int32), False)
    return _choose("cond", index, (false_fun, true_fun), operands)


def _old_form(pred: Any, true_operand: Any, true_fun: Any, rest: tuple[Any, ...]) -> Any:
    if len(rest) != 2 or not callable(true_fun) or not callable(rest[1]):
        wrong = true_fun if callable(true_operand) else true_operand
        check_callable(wrong, "cond")
        raise TypeError("cond takes (pred, true_fun, false_fun, *operands)")
    false_operand, false_fun = rest

    def true_(both: Any) -> Any:
        return true_fun(both[0])

    def false_(both: Any) -> Any:
        return false_fun(both[1])

    return cond(pred, true_, false_, (true_operand, false_operand))


def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _MISSING,
) -> Any:
    """`branches[clamp(index)](*operands)`; all are traced, one runs.

    `index`: an integer scalar, taken into range.  Errors as for `cond`; ValueError where there
    are no branches.

    >>> from covector import lax
    >>> int(lax.switch(7, [lambda x: x, lambda x: 2 * x, lambda x: x * x], 5))
    25
    """
    if operand is not _MISSING:
        if operands:
            raise TypeError("switch: give operands by position, or operand=; not both")
        operands = (operand,)
    branches = tuple(branches)
    for branch in branches:
        check_callable(branch, "switch")
    aval = typeof(index)
    if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"switch: index must be an integer scalar; got {aval.str_short()}")
    if not branches:
        raise ValueError("switch: give at least one branch")
    last = len(branches) - 1
    if last == 0:
        return branches[0](*operands)
    if config.disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), last)](*operands)
    index = as_array(index)
    low, high = (aval.dtype.type(n) for n in (0, min(last, np.iinfo(aval.dtype).max)))
    index = ops.pointwise.clamp(low, index, high)
    index = ops.cast.convert_element_type(index, np.dtype(np.int32), False)
    return _choose("switch", index, branches, operands)


def _choose(who: str, index: Any, branches: Sequence[Any], operands: tuple[Any, ...]) -> Any:
    leaves = tree.leaves(operands)
    check_values(leaves, operands, f"the operands of {who}")
    avals = avals_of(leaves)
    with known_inputs(leaves):
        traced = [run_flat(f, operands, avals) for f in branches]
    out_tree = traced[0][1]
    for f, (_, other) in zip(branches, traced, strict=True):
        if other != out_tree:
            raise TypeError(
                f"{who}: all branches must return the same structure.\n"
                f"  {name_of(branches[0])} returns {out_tree}\n  {name_of(f)} returns {other}"
            )
    programs = _alike(who, branches, [program for program, _ in traced], out_tree)
    jaxprs, consts = lift_together(programs)
    outs = Cond(tuple(jaxprs))(index, *consts, *(as_array(x) for x in leaves))
    return tree.unflatten(out_tree, outs)


def _alike(
    who: str, branches: Sequence[Any], programs: list[ClosedJaxpr], out_tree: Any
) -> list[ClosedJaxpr]:
    """The programs with results of one type: weak ones yield to strong ones of equal dtype."""
    lists = [p.out_avals for p in programs]
    strong = [[a.strong() for a in avals] for avals in lists]
    for f, avals in zip(branches, strong, strict=True):
        if avals != strong[0]:
            raise TypeError(_mismatch(who, (branches[0], f), (strong[0], avals), out_tree))
    if all(avals == lists[0] for avals in lists):
        return programs
    weak = [all(a.weak_type for a in column) for column in zip(*lists, strict=True)]
    return [_with_weakness(p, weak) for p in programs]


def _with_weakness(program: ClosedJaxpr, weak: Sequence[bool]) -> ClosedJaxpr:
    """The program, its results made strong where not all branches' are weak."""

    def run(*args: Any) -> list[Any]:
        outs = ops.call.Jit(lifted, program.jaxpr.debug_name)(*args)
        return [
            x if w or not typeof(x).weak_type
            else ops.cast.convert_element_type(x, typeof(x).dtype, False)
            for x, w in zip(outs, weak, strict=True)
        ]  # fmt: skip

    (lifted,), consts = lift_together([program])
    made = trace_to_jaxpr(run, lifted.in_avals, program.jaxpr.debug_name)
    body, n = made.jaxpr, len(consts)
    return ClosedJaxpr(body.replace(constvars=body.invars[:n], invars=body.invars[n:]), consts)


def _mismatch(
    who: str, funs: Sequence[Any], avals: Sequence[Sequence[ShapedArray]], out_tree: Any
) -> str:
    paths = tree.flatten_with_path(tree.unflatten(out_tree, list(avals[0])))[0]
    lines = [
        f"  {keystr(path) or 'the result'}: {name_of(funs[0])} gives {a.str_short()}, "
        f"{name_of(funs[1])} gives {b.str_short()}"
        for (path, _), a, b in zip(paths, *avals, strict=True)
        if a != b
    ]
    return f"{who}: all branches must return the same types, but they differ:\n" + "\n".join(lines)


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """The function given for the platform that runs the program, of `args`; else `default`.

    Raises NotImplementedError where there is neither.

    >>> from covector import lax
    >>> float(lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x))
    3.0
    """
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent: no function for platform 'cpu', and no default; given for "
            f"{sorted(per_platform)}"
        )
    return chosen(*args)
