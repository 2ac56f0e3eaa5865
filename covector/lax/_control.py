"""Loops whose body is traced once: `while_loop`, `fori_loop`, `scan`, `map`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops, tree
from covector._base.config import config
from covector._base.errors import ConcretizationTypeError
from covector.api.arguments import avals_of, check_callable, check_values, name_of
from covector.api.arrays import as_array
from covector.api.vectorize import vmap
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.lax._carry import fixed_point, lift, run_flat
from covector.ops.control import Scan, While
from covector.trace.stage import known_inputs
from covector.trace.tracer import Tracer
from covector.tree_util import keystr


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """`val = init_val; while cond_fun(val): val = body_fun(val)`; both are traced once.

    `init_val`: a tree of arrays; `body_fun` must give one of the same structure, shapes and
    dtypes, `cond_fun` a boolean scalar.  Raises TypeError, with the parts that differ, otherwise.

    >>> from covector import lax
    >>> int(lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3))
    192
    """
    check_callable(cond_fun, "while_loop")
    check_callable(body_fun, "while_loop")
    check_values(tree.leaves(init_val), init_val, "the start value of while_loop")
    if config.disable_jit:
        while cond_fun(init_val):
            init_val = body_fun(init_val)
        return init_val

    def trace(avals: Sequence[ShapedArray]) -> tuple[Any, Any, Any]:
        program, out_tree = run_flat(body_fun, (init_val,), avals)
        return program, out_tree, out_tree

    body = fixed_point("while_loop", body_fun, init_val, trace)
    with known_inputs(body.leaves):
        cond, tree_of_cond = run_flat(cond_fun, (init_val,), body.avals)
    given = [a.strong().str_short() for a in cond.out_avals]
    if given != ["bool[]"] or tree_of_cond != tree.structure(0):
        raise TypeError(
            f"while_loop: cond_fun {name_of(cond_fun)} must return a boolean scalar; got "
            f"{tree.unflatten(tree_of_cond, given)}"
        )
    cond_jaxpr, cond_consts = lift(cond)
    body_jaxpr, body_consts = lift(body.program)
    loop = While(cond_jaxpr, body_jaxpr, len(cond_consts), len(body_consts))
    return tree.unflatten(body.out_tree, loop(*cond_consts, *body_consts, *body.leaves))


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`; the body is traced once.

    Bounds may be traced integers; of known ones the loop is a `scan`, so that it can be
    differentiated in reverse, and `i` is weakly typed.  `unroll` is a hint.  Errors as for
    `while_loop`.

    >>> from covector import lax
    >>> int(lax.fori_loop(0, 10, lambda i, total: total + i, 0))
    45
    """
    check_callable(body_fun, "fori_loop")
    for what, bound in (("lower", lower), ("upper", upper)):
        aval = typeof(bound)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(f"fori_loop: {what} must be an integer scalar; got {aval.str_short()}")
    dtype = dtypes.result_type(lower, upper)
    known = not isinstance(lower, Tracer) and not isinstance(upper, Tracer)
    if unroll is not None and not known:
        raise ValueError("fori_loop: unroll needs bounds that are known while tracing")
    if config.disable_jit:
        for i in range(int(lower), int(upper)):
            index = ops.cast.convert_element_type(as_array(dtype.type(i)), dtype, True)
            init_val = body_fun(index, init_val)
        return init_val
    weak = known or typeof(lower).weak_type
    start, stop = (ops.cast.convert_element_type(as_array(b), dtype, weak) for b in (lower, upper))

    def following(i: Any) -> Any:
        one = ops.families.like(i, 1)
        return ops.cast.convert_element_type(ops.pointwise.add(i, one), dtype, weak)

    if known:
        length = max(int(upper) - int(lower), 0)

        def round_(state: Any, _: Any) -> Any:
            i, value = state
            return (following(i), body_fun(i, value)), None

        round_.__name__ = name_of(body_fun)
        return _scan("fori_loop", round_, (start, init_val), None, length, False)[0][1]

    def going(state: Any) -> Any:
        return ops.pointwise.lt(state[0], state[1])

    def step(state: Any) -> Any:
        i, last, value = state
        return following(i), last, body_fun(i, value)

    step.__name__ = name_of(body_fun)
    return while_loop(going, step, (start, stop, init_val))[2]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """`for k in range(length): carry, ys[k] = f(carry, xs[k])`; gives (carry, ys).

    `init`: a tree of arrays, the carry's start; `f` must give a carry of the same structure,
    shapes and dtypes.  `xs`: a tree of arrays whose first axes have one size, or None with a
    `length`.  `ys`: a tree of the rows that `f` gives, stacked.  `reverse`: from the last row to
    the first.  `unroll` and `_split_transpose` are hints.  Raises TypeError where the carry
    changes its type or `f` gives no pair, ValueError where sizes differ.

    >>> from covector import lax, numpy as cnp
    >>> total, sums = lax.scan(lambda total, x: (total + x, total + x), 0, cnp.arange(5))
    >>> int(total), sums.tolist()
    (10, [0, 1, 3, 6, 10])
    """
    del _split_transpose
    check_callable(f, "scan")
    check_values(tree.leaves(init), init, "the start value of scan")
    check_values(tree.leaves(xs), xs, "xs of scan")
    count = _length(xs, length)
    if unroll < 0:
        raise ValueError(f"scan: unroll must be a boolean or a positive integer; got {unroll!r}")
    if config.disable_jit:
        return _python_scan(f, init, xs, count, reverse)
    return _scan("scan", f, init, xs, count, bool(reverse))


def _scan(who: str, f: Any, init: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    rows, xs_tree = tree.flatten(xs)
    rows = [as_array(x) for x in rows]
    row_avals = [ShapedArray(a.shape[1:], a.dtype, a.weak_type) for a in avals_of(rows)]
    dummy = tree.unflatten(xs_tree, row_avals)

    def trace(avals: Sequence[ShapedArray]) -> tuple[Any, Any, Any]:
        program, out_tree = run_flat(f, (init, dummy), [*avals, *row_avals])
        carry_tree, _ = _pair(f, out_tree)
        return program, carry_tree, out_tree

    body = fixed_point(who, f, init, trace, rows)
    jaxpr, consts = lift(body.program)
    loop = Scan(jaxpr, length, reverse, len(consts), len(body.leaves))
    return tree.unflatten(body.out_tree, loop(*consts, *body.leaves, *rows))


def _pair(f: Any, out_tree: Any) -> list[Any]:
    parts = out_tree.children()
    if out_tree.node_data() is None or out_tree.node_data()[0] is not tuple or len(parts) != 2:
        raise TypeError(f"scan: {name_of(f)} must return a pair (carry, y); it returns {out_tree}")
    return parts


def _length(xs: Any, length: int | None) -> int:
    """How many rounds: `length`, or the size of the first axes."""
    sizes: dict[str, int] = {}
    for path, x in tree.flatten_with_path(xs)[0]:
        shape = typeof(x).shape
        if not shape:
            raise ValueError(
                f"scan reads rows of its xs; xs{keystr(path)} is a scalar, {typeof(x).str_short()}"
            )
        sizes[f"xs{keystr(path)}"] = shape[0]
    found = set(sizes.values())
    if length is not None:
        if isinstance(length, Tracer):
            raise ConcretizationTypeError(length, "It is needed for the length of scan.")
        try:
            length = operator.index(length)
        except TypeError:
            raise TypeError(f"scan: length must be an integer; got {length!r}") from None
        if found - {length}:
            raise ValueError(f"scan: length is {length}, but first axes have the sizes {sizes}")
        if length < 0:
            raise ValueError(f"scan: length must not be negative; got {length}")
        return length
    if not found:
        raise ValueError("scan: give xs, or a length: nothing says how many rounds there are")
    if len(found) > 1:
        raise ValueError(f"scan: the first axes of xs must have one size; got {sizes}")
    return found.pop()


def _python_scan(f: Any, carry: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    """Without tracing, so that a debugger sees each round."""

    def row(k: int) -> Any:
        def read(x: Any) -> Any:
            return as_array(x)[k]

        return tree.map(read, xs)

    def stack(*rows: Any) -> Any:
        return ops.shape.stack([as_array(r) for r in rows], 0)

    ys: list[Any] = []
    for k in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, row(k))
        ys.append(y)
    if not ys:
        raise ValueError("scan of no rounds under disable_jit: nothing says what y is like")
    if reverse:
        ys.reverse()
    return carry, tree.map(stack, *ys)


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of each row of `xs`, one after another (or `batch_size` at a time, by vmap); stacked.

    `xs`: a tree of arrays whose first axes have one size.

    >>> from covector import lax, numpy as cnp
    >>> lax.map(lambda x: x ** 2, cnp.arange(4)).tolist()
    [0, 1, 4, 9]
    """
    check_callable(f, "map")

    def one(_: Any, x: Any) -> Any:
        return None, f(x)

    one.__name__ = name_of(f)
    if batch_size is None:
        return scan(one, None, xs)[1]
    if batch_size < 1:
        raise ValueError(f"map: batch_size must be positive; got {batch_size}")
    return _map_blocks(vmap(f), xs, _length(xs, None), batch_size)


def _map_blocks(many: Any, xs: Any, count: int, size: int) -> Any:
    """Whole blocks one after another, then the rest."""
    whole = count // size
    cut = whole * size

    def blocks(x: Any) -> Any:
        return as_array(x)[:cut].reshape(whole, size, *np.shape(x)[1:])

    def rest(x: Any) -> Any:
        return as_array(x)[cut:]

    def joined(y: Any) -> Any:
        return y.reshape(cut, *y.shape[2:])

    def one(_: Any, x: Any) -> Any:
        return None, many(x)

    def together(*parts: Any) -> Any:
        return ops.shape.concatenate(list(parts), 0)

    parts: list[Any] = []
    if whole:
        parts.append(tree.map(joined, scan(one, None, tree.map(blocks, xs))[1]))
    if cut < count or not whole:
        parts.append(many(tree.map(rest, xs)))
    return parts[0] if len(parts) == 1 else tree.map(together, *parts)
