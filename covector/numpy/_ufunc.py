"""`ufunc`: an elementwise function with the reductions and updates that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from covector import ops
from covector.ir.values import typeof
from covector.lax import fori_loop
from covector.numpy import _arithmetic, _at, _elementwise, _functional, _reductions, convert
from covector.numpy._indexing import getitem
from covector.numpy.convert import (
    array_operand,
    canonical_axes,
    canonical_axis,
    number,
    operands,
    strong,
    user_dtype,
)

point = ops.pointwise
Rule = Callable[..., Any]


@final
class ufunc:
    """A function of `nin` arrays that gives `nout`, element by element, broadcasting.

    func: of scalars; it is vectorised.  identity: what reductions of nothing give, or None.  call,
    reduce, accumulate, at, reduceat: better rules than the general ones, which apply the function
    to one element after another.

    >>> import covector.numpy as cnp
    >>> cnp.add.reduce(cnp.array([1, 2, 3])).tolist()
    6
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Rule | None = None,
        reduce: Rule | None = None,
        accumulate: Rule | None = None,
        at: Rule | None = None,
        reduceat: Rule | None = None,
    ) -> None:
        self.__name__ = self.__qualname__ = name or getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__
        self.nin, self.nout, self.identity = nin, nout, identity
        self.nargs = nin if nargs is None else nargs
        self._function = _functional.vectorize(func) if call is None else call
        self._reduce, self._accumulate = reduce, accumulate
        self._at, self._reduceat = at, reduceat

    def __repr__(self) -> str:
        return f"<covector.numpy.ufunc {self.__name__!r}>"

    def __reduce__(self) -> str:
        return self.__name__

    def __call__(self, *args: Any, out: Any = None, where: Any = None) -> Any:
        """The function of the arguments; `out` and `where` are not supported."""
        for name, value in (("out", out), ("where", where)):
            if value is not None:
                raise NotImplementedError(f"{name} argument of {self!r}")
        if len(args) != self.nin:
            raise TypeError(
                f"{self.__name__}() takes {self.nin} positional arguments but {len(args)} were "
                "given"
            )
        return self._function(*args)

    def _binary(self, what: str, out: Any = None) -> None:
        if (self.nin, self.nout) != (2, 1):
            raise ValueError(
                f"{what} only supported for binary ufuncs with a single output; {self.__name__} "
                f"has nin={self.nin}, nout={self.nout}"
            )
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.{what}")

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """The elements along `axis` (None: all) combined, from the first to the last.

        Raises ValueError for an empty axis if there is neither an identity nor `initial`.
        """
        self._binary("reduce", out)
        x = array_operand(f"{self.__name__}.reduce", a)
        if where is not None and self.identity is None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__} does not have an identity, so to use a "
                "where mask one has to specify 'initial'."
            )
        if self._reduce is not None:
            return self._reduce(
                x, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        axes = canonical_axes(axis, x.ndim, self.__name__)
        x = x if dtype is None else strong(x, user_dtype(dtype, self.__name__))
        rest = [d for d in range(x.ndim) if d not in axes]
        moved = ops.shape.transpose(x, (*axes, *rest))
        count = int(np.prod([x.shape[d] for d in axes], dtype=np.int64))
        rows = ops.shape.reshape(moved, (count, *(x.shape[d] for d in rest)))
        if where is not None:
            (where,) = operands(self.__name__, where)
            mask = ops.shape.broadcast_to(_elementwise.nonzero_mask(where), x.shape)
            mask = ops.shape.reshape(ops.shape.transpose(mask, (*axes, *rest)), rows.shape)
        else:
            mask = None
        return _reductions.kept(self._fold(rows, initial, mask), axes, keepdims)

    def _fold(self, rows: Any, initial: Any, mask: Any) -> Any:
        count = rows.shape[0]
        start = initial if initial is not None else self.identity
        if start is None and not count:
            raise ValueError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )
        if start is None or (initial is None and mask is None and count):
            total, first = getitem(rows, 0), 1
        else:
            start = convert.cast(operands(self.__name__, start)[0], rows.dtype)
            total, first = ops.shape.broadcast_to(start, rows.shape[1:]), 0

        def step(k: Any, total: Any) -> Any:
            new = convert.cast(self._function(total, getitem(rows, k)), rows.dtype)
            return new if mask is None else convert.select(getitem(mask, k), new, total)

        return fori_loop(first, count, step, total) if count > first else total

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Every prefix along `axis` combined."""
        self._binary("accumulate", out)
        x = array_operand(f"{self.__name__}.accumulate", a)
        x = x if dtype is None else strong(x, user_dtype(dtype, self.__name__))
        if axis is None:
            if self._accumulate is None and x.ndim != 1:
                raise ValueError("accumulate does not allow multiple axes")
            axis, x = 0, ops.shape.reshape(x, (x.size,))
        axis = canonical_axis(axis, x.ndim, self.__name__)
        if self._accumulate is not None:
            return self._accumulate(x, axis)
        rows = ops.shape.move_axis(x, axis, 0)
        if not rows.shape[0]:
            return x

        def step(k: Any, state: Any) -> Any:
            total, rows = state
            total = convert.cast(self._function(total, getitem(rows, k)), x.dtype)
            return total, _at.IndexedUpdate(rows, k).set(total)

        _, rows = fori_loop(1, rows.shape[0], step, (getitem(rows, 0), rows))
        return ops.shape.move_axis(rows, 0, axis)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """`a` with the function applied at the indices (with `b`); repeated ones again and again.

        `inplace` must be False: arrays are immutable, the result is a new one.
        """
        if inplace:
            raise NotImplementedError(
                f"{self.__name__}.at: arrays are immutable; pass inplace=False and use the result"
            )
        x = array_operand(f"{self.__name__}.at", a)
        if (b is None) != (self.nin == 1):
            raise ValueError(f"{self.__name__}.at: wanted {self.nin - 1} operands beside the array")
        place = _at.IndexedUpdate(x, indices)
        if b is None:
            return place.apply(self._function)
        if self._at is not None:
            return self._at(place, b)
        return self._at_each(x, indices, b)

    def _at_each(self, x: Any, indices: Any, b: Any) -> Any:
        """One position after another."""
        index = indices if isinstance(indices, tuple) else (indices,)
        taken = getitem(x, indices)
        if any(isinstance(k, slice) or k is None or k is Ellipsis for k in index):
            return _at.IndexedUpdate(x, indices).set(self._function(taken, b))
        arrays = convert.broadcast_all("at", *[array_operand("at", k) for k in index])
        count = typeof(arrays[0]).size
        values = convert.broadcast_to(array_operand("at", b), typeof(taken).shape)
        window = typeof(taken).shape[typeof(arrays[0]).ndim :]
        flat = [ops.shape.reshape(k, (count,)) for k in arrays]
        values = ops.shape.reshape(values, (count, *window))

        def step(k: Any, x: Any) -> Any:
            here = tuple(getitem(f, k) for f in flat)
            new = convert.cast(self._function(getitem(x, here), getitem(values, k)), x.dtype)
            return _at.IndexedUpdate(x, here).set(new)

        return fori_loop(0, count, step, x) if count else x

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of every element of `A` with every one of `B`."""
        if self.nin != 2:
            raise ValueError(f"outer only supported for binary ufuncs; {self.__name__} has "
                             f"nin={self.nin}")  # fmt: skip
        x, y = (array_operand(f"{self.__name__}.outer", v) for v in (A, B))
        return self._function(ops.shape.reshape(x, (*x.shape, *(1,) * y.ndim)), y)

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
    ) -> Any:
        """Reductions of the slices from each index up to the next (or of that element alone)."""
        self._binary("reduceat", out)
        x = array_operand(f"{self.__name__}.reduceat", a)
        if self._reduceat is not None:
            return self._reduceat(x, indices, axis=axis, dtype=dtype)
        axis = canonical_axis(axis, x.ndim, self.__name__)
        starts = convert.concrete(indices, f"the indices of {self.__name__}.reduceat")
        if starts.ndim != 1:
            raise ValueError(f"reduceat: indices must be one-dimensional, got {starts.shape}")
        n = x.shape[axis]
        stops = [*starts[1:].tolist(), n]
        parts = []
        for start, stop in zip(starts.tolist(), stops, strict=True):
            part = ops.shape.slice_along(x, axis, start, stop if stop > start else start + 1)
            parts.append(self.reduce(part, axis, dtype))
        return ops.shape.stack(parts, axis)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A `ufunc` of a Python function of scalars.

    >>> import covector.numpy as cnp
    >>> cnp.frompyfunc(lambda x, y: x + 2 * y, 2, 1).reduce(cnp.array([1, 2, 3])).tolist()
    11
    """
    return ufunc(func, nin, nout, identity=identity)


# The ufuncs of the door


def _reducing(function: Rule, **fixed: Any) -> Rule:
    """A reduction as the rule of a ufunc."""

    def reduce(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        options = {**fixed, "initial": initial}
        if dtype is not None:
            x = strong(x, user_dtype(dtype, "reduce"))
        return function(x, axis, keepdims=keepdims, where=where, **options)

    return reduce


def _truth(function: Rule, combine: Rule) -> Rule:
    def reduce(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        out = function(x, axis, keepdims=keepdims, where=where)
        out = out if initial is None else combine(out, initial)
        return out if dtype is None else strong(out, user_dtype(dtype, "reduce"))

    return reduce


def _bitwise(op: Rule, combine: Rule, neutral: int) -> Rule:
    def reduce(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        if dtype is not None:
            x = strong(x, user_dtype(dtype, "reduce"))
        axes = canonical_axes(axis, x.ndim, "reduce")
        out = op(_reductions.masked("reduce", x, where, neutral), axes)
        if initial is not None:
            out = combine(out, convert.cast(operands("reduce", initial)[0], typeof(out).dtype))
        return _reductions.kept(out, axes, keepdims)

    return reduce


def _log_sum(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    (x,) = convert.promote_inexact(x)
    if dtype is not None:
        x = strong(x, user_dtype(dtype, "reduce"))
    axes = canonical_axes(axis, typeof(x).ndim, "logaddexp.reduce")
    x = _reductions.masked("logaddexp.reduce", x, where, -np.inf)
    top = _reductions.max(x, axes, keepdims=True, initial=-np.inf)
    top = convert.select(point.is_finite(top), top, number(top, 0))
    top = ops.select.stop_gradient(top)
    terms = point.exp(point.sub(x, ops.shape.broadcast_to(top, typeof(x).shape)))
    total = ops.shape.expand_dims(ops.reduce.reduce_sum(terms, axes), axes)
    out = point.add(point.log(total), top)
    out = out if keepdims else ops.shape.squeeze(out, axes)
    return out if initial is None else _arithmetic.logaddexp(out, initial)


def _scanned(scan: Rule, inexact: bool = False) -> Rule:
    def accumulate(x: Any, axis: int) -> Any:
        if inexact:
            (x,) = convert.promote_inexact(x)
        return scan(x, axis)

    return accumulate


def _updated(name: str) -> Rule:
    return lambda place, b: getattr(place, name)(b)


def _of(function: Rule, nin: int, identity: Any = None, **rules: Any) -> ufunc:
    return ufunc(function, nin, 1, name=function.__name__, identity=identity, call=function,
                 **rules)  # fmt: skip


_e, _r, _c = _elementwise, _reductions, ops.cumulative
add = _of(
    _e.add, 2, 0, at=_updated("add"),
    reduce=_reducing(_r.sum, promote_integers=False), accumulate=_scanned(_r.cumsum),
)  # fmt: skip
multiply = _of(
    _e.multiply, 2, 1, at=_updated("multiply"),
    reduce=_reducing(_r.prod, promote_integers=False), accumulate=_scanned(_r.cumprod),
)  # fmt: skip
subtract = _of(_e.subtract, 2, at=_updated("subtract"))
negative = _of(_e.negative, 1)
maximum = _of(_e.maximum, 2, at=_updated("max"), reduce=_reducing(_r.max),
              accumulate=_scanned(_c.cummax))  # fmt: skip
minimum = _of(_e.minimum, 2, at=_updated("min"), reduce=_reducing(_r.min),
              accumulate=_scanned(_c.cummin))  # fmt: skip
logaddexp = _of(_arithmetic.logaddexp, 2, -np.inf, reduce=_log_sum,
                accumulate=_scanned(_c.cumlogsumexp, inexact=True))  # fmt: skip
logaddexp2 = _of(_arithmetic.logaddexp2, 2, -np.inf)
logical_and = _of(_e.logical_and, 2, True, reduce=_truth(_r.all, _e.logical_and))
logical_or = _of(_e.logical_or, 2, False, reduce=_truth(_r.any, _e.logical_or))
logical_xor = _of(_e.logical_xor, 2, False)
bitwise_and = _of(_e.bitwise_and, 2, -1,
                  reduce=_bitwise(ops.reduce.reduce_and, point.and_, -1))  # fmt: skip
bitwise_or = _of(_e.bitwise_or, 2, 0, reduce=_bitwise(ops.reduce.reduce_or, point.or_, 0))
bitwise_xor = _of(_e.bitwise_xor, 2, 0, reduce=_bitwise(ops.reduce.reduce_xor, point.xor, 0))
