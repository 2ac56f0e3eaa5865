"""Differences, gradients, integrals; covariances; convolutions of vectors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import _products, _statistics, convert
from covector.numpy._elementwise import conj, not_equal, subtract
from covector.numpy.convert import (
    array_operand,
    canonical_axes,
    canonical_axis,
    cast,
    number,
    operands,
    promote,
    promote_inexact,
    strong,
    user_dtype,
)

point = ops.pointwise


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The difference of neighbours along `axis`, taken `n` times.

    prepend, append: joined to the array first; scalars are one slice.

    >>> import covector.numpy as cnp
    >>> cnp.diff(cnp.array([1, 4, 9])).tolist()
    [3, 5]
    """
    x = array_operand("diff", a)
    n = operator.index(convert.concrete(n, "the argument `n` of diff")[()])
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if not x.ndim:
        raise ValueError("diff requires input that is at least one dimensional; got rank 0")
    if not n:
        return x
    axis = canonical_axis(axis, x.ndim, "diff")
    parts = [x]
    for value, place in ((prepend, 0), (append, len(parts) + 1)):
        if value is not None:
            (value,) = operands("diff", value)
            if not typeof(value).shape:
                shape = [1 if d == axis else m for d, m in enumerate(x.shape)]
                value = convert.broadcast_to(value, shape)
            parts.insert(place, value)
    x = ops.shape.concatenate([as_array(v) for v in promote(*parts)], axis)
    step = not_equal if x.dtype == np.bool_ else subtract
    for _ in range(n):
        size = x.shape[axis]
        cut = min(1, size)
        right = ops.shape.slice_along(x, axis, cut, size)
        x = step(right, ops.shape.slice_along(x, axis, 0, size - cut))
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours in the flat array, with something before and after.

    >>> import covector.numpy as cnp
    >>> cnp.ediff1d(cnp.array([1, 4, 9])).tolist()
    [3, 5]
    """
    x = array_operand("ediff1d", ary)
    if x.dtype == np.bool_:
        raise TypeError("ediff1d: booleans have no differences; convert them to integers first")
    out = diff(ops.shape.reshape(x, (x.size,)))
    parts = [out]
    for value, place in ((to_begin, 0), (to_end, 2)):
        if value is not None:
            value = strong(operands("ediff1d", value)[0], out.dtype)
            parts.insert(place, ops.shape.reshape(value, (value.size,)))
    return ops.shape.concatenate(parts, 0)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """The derivative by central differences, by one-sided ones at the ends.

    varargs: the spacing, one number, or for each axis a number or the coordinates.  axis: one or
    several; all by default.  Returns one array, or a list of several.

    >>> import covector.numpy as cnp
    >>> cnp.gradient(cnp.array([1.0, 2.0, 4.0])).tolist()
    [1.0, 1.5, 2.0]
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to gradient is not supported.")
    x, *spacing = promote_inexact(*operands("gradient", f, *varargs))
    x = array_operand("gradient", x)
    axes = canonical_axes(axis, x.ndim, "gradient")
    if len(spacing) in (0, 1):
        spacing = [spacing[0] if spacing else number(x, 1)] * len(axes)
    if len(spacing) != len(axes):
        raise TypeError(f"Invalid number of spacing arguments {len(spacing)} for {axis=}")
    out = [_gradient(x, h, d) for d, h in zip(axes, spacing, strict=True)]
    return out[0] if len(out) == 1 else out


def _gradient(x: Any, spacing: Any, axis: int) -> Any:
    n = x.shape[axis]
    if n < 2:
        raise ValueError("Shape of array too small to calculate a numerical gradient, at least 2 "
                         "elements are required.")  # fmt: skip

    def along(v: Any, start: int, stop: int) -> Any:
        return ops.shape.slice_along(v, axis if typeof(v).ndim == x.ndim else 0, start, stop)

    step = point.sub(along(x, 1, n), along(x, 0, n - 1))
    if not typeof(spacing).shape:
        spacing = as_array(spacing)
        middle = point.div(
            point.sub(along(x, 2, n), along(x, 0, n - 2)), point.mul(spacing, number(x, 2))
        )
        sides = point.div(step, spacing)
    else:
        if typeof(spacing).shape != (n,):
            raise ValueError("gradient: coordinates must be 1-d, one for each element along the "
                             f"axis; got {typeof(spacing).shape} for {n}")  # fmt: skip
        width = point.sub(along(spacing, 1, n), along(spacing, 0, n - 1))
        width = ops.shape.broadcast_in_dim(width, typeof(step).shape, (axis,))
        sides = point.div(step, width)
        before, after = along(width, 0, n - 2), along(width, 1, n - 1)
        slope_before, slope_after = along(sides, 0, n - 2), along(sides, 1, n - 1)
        weighted = point.add(point.mul(slope_before, after), point.mul(slope_after, before))
        middle = point.div(weighted, point.add(before, after))
    parts = [along(sides, 0, 1), middle, along(sides, n - 2, n - 1)]
    return ops.shape.concatenate(parts, axis)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along `axis` by the trapezoidal rule, over coordinates `x` or steps `dx`.

    >>> import covector.numpy as cnp
    >>> cnp.trapezoid(cnp.array([1.0, 2.0, 3.0])).tolist()
    4.0
    """
    if x is None:
        y, dx = operands("trapezoid", y, dx)
        y, dx = promote_inexact(*promote_inexact(y), dx)
        y = array_operand("trapezoid", y)
        y = ops.shape.move_axis(y, canonical_axis(axis, y.ndim, "trapezoid"), y.ndim - 1)
    else:
        y, x = (array_operand("trapezoid", v)
                for v in promote_inexact(*operands("trapezoid", y, x)))  # fmt: skip
        y = ops.shape.move_axis(y, canonical_axis(axis, y.ndim, "trapezoid"), y.ndim - 1)
        if x.ndim == 1:
            dx = diff(x)
        else:
            place = canonical_axis(axis, x.ndim, "trapezoid")
            dx = diff(ops.shape.move_axis(x, place, x.ndim - 1))
    n, last = y.shape[-1], y.ndim - 1
    pairs = point.add(
        ops.shape.slice_along(y, last, min(1, n), n),
        ops.shape.slice_along(y, last, 0, max(n - 1, 0)),
    )
    areas = point.mul(*convert.broadcast("trapezoid", pairs, dx))
    total = ops.reduce.reduce_sum(areas, (typeof(areas).ndim - 1,))
    return point.mul(total, number(total, 0.5))


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * np.pi) -> Any:
    """Angles without jumps: multiples of the period are added so that neighbours differ by at
    most half of it (or by `discont`, if that is more).

    >>> import covector.numpy as cnp
    >>> cnp.unwrap(cnp.array([0.0, 4.0, 8.0]), period=4).tolist()
    [0.0, 0.0, 0.0]
    """
    p = array_operand("unwrap", p)
    if convert.is_kind(p, np.complexfloating):
        raise ValueError(f"unwrap: angles must be real; got {typeof(p).str_short()}")
    if not isinstance(period, int) or not convert.is_kind(p, np.integer):
        p = strong(p, dtypes.to_inexact_dtype(dtypes.result_type(p, period)))
    axis = canonical_axis(axis, p.ndim, "unwrap")
    if not p.shape[axis]:
        return p
    period = cast(operands("unwrap", period)[0], p.dtype)
    whole = convert.is_kind(p, np.integer)
    half = point.div(as_array(period), number(p, 2))
    step = diff(p, axis=axis)
    shifted = _modulo(point.add(step, half), period)
    moved = point.sub(shifted, half)
    # A step of half a period up stays one.
    edge = point.and_(point.eq(moved, point.neg(half)), point.gt(step, number(p, 0)))
    if whole:
        edge = point.and_(edge, point.eq(point.mul(half, number(p, 2)), period))
    moved = convert.select(edge, half, moved)
    fix = point.sub(moved, step)
    limit = half if discont is None else cast(operands("unwrap", discont)[0], p.dtype)
    fix = convert.select(point.lt(point.abs_(step), limit), number(p, 0), fix)
    rest = point.add(
        ops.shape.slice_along(p, axis, 1, p.shape[axis]), ops.cumulative.cumsum(fix, axis)
    )
    return ops.shape.concatenate([ops.shape.slice_along(p, axis, 0, 1), rest], axis)


def _modulo(x: Any, period: Any) -> Any:
    rest = point.rem(x, period)
    return convert.select(point.lt(rest, number(rest, 0)), point.add(rest, period), rest)


# Covariance


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Any:
    """The covariance matrix of the rows of `m` (columns, if not `rowvar`), and of `y` if given.

    Normalised by n - ddof, where ddof is 1 (0 with `bias`).  fweights: how often each observation
    counts; aweights: how much.

    >>> import covector.numpy as cnp
    >>> cnp.cov(cnp.array([1.0, 2.0, 3.0])).tolist()
    1.0
    """
    if y is not None:
        m, y = promote_inexact(*operands("cov", m, y))
        if typeof(y).ndim > 2:
            raise ValueError("y has more than 2 dimensions")
    else:
        (m,) = promote_inexact(*operands("cov", m))
    if typeof(m).ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    wanted = user_dtype(dtype, "cov")
    x = _variables(array_operand("cov", m), rowvar)
    if not x.shape[0]:
        return ops.shape.full((0, 0), 0, x.dtype)
    if y is not None:
        x = ops.shape.concatenate([x, _variables(array_operand("cov", y), rowvar)], 0)
    if wanted is not None:
        x = strong(x, wanted)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = _observation_weights(x, fweights, aweights)
    n = x.shape[1]
    if weights is None:
        mean = _statistics.mean(x, 1, keepdims=True)
        freedom: Any = number(point.real(x) if convert.is_kind(x, np.complexfloating) else x,
                              max(n - ddof, 0))  # fmt: skip
    else:
        total = ops.reduce.reduce_sum(weights, (0,))
        mean = _statistics.average(x, 1, weights, keepdims=True)
        if aweights is None or not ddof:
            freedom = point.sub(total, number(total, ddof)) if ddof else total
        else:
            heavy = strong(array_operand("cov", aweights), weights.dtype)
            square = ops.reduce.reduce_sum(point.mul(weights, heavy), (0,))
            freedom = point.sub(total, point.div(point.mul(number(total, ddof), square), total))
    gap = point.sub(x, ops.shape.broadcast_to(mean, x.shape))
    scaled = gap if weights is None else point.mul(
        gap, ops.shape.broadcast_in_dim(weights, x.shape, (1,)))  # fmt: skip
    out = _products.product(gap, conj(scaled), ((1,), (1,)))
    freedom = cast(freedom, typeof(out).dtype)
    out = point.div(out, freedom)
    return ops.shape.squeeze(out, [d for d, k in enumerate(typeof(out).shape) if k == 1])


def _variables(x: Any, rowvar: bool) -> Any:
    x = ops.shape.reshape(x, (*(1,) * (2 - x.ndim), *x.shape))
    return ops.shape.transpose(x, (1, 0)) if not rowvar and x.shape[0] != 1 else x


def _observation_weights(x: Any, fweights: Any, aweights: Any) -> Any:
    out = None
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        w = array_operand("cov", weights)
        if w.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if w.shape[0] != x.shape[1]:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not convert.is_kind(w, np.integer):
            raise TypeError("fweights must be integer.")
        w = strong(point.abs_(w) if not convert.is_kind(w, np.unsignedinteger) else w,
                   dtypes.to_real_dtype(x.dtype))  # fmt: skip
        out = w if out is None else point.mul(out, w)
    return out


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """The correlation coefficients of the rows of `x`; see `cov`.

    >>> import covector.numpy as cnp
    >>> cnp.corrcoef(cnp.array([[1.0, 2.0], [2.0, 1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return point.div(c, c)
    n = c.shape[0]
    flat = ops.shape.slice_along(ops.shape.reshape(c, (n * n,)), 0, 0, n * n, n + 1)
    root = point.sqrt(point.real(flat) if convert.is_kind(c, np.complexfloating) else flat)
    for d in (0, 1):
        c = point.div(c, cast(ops.shape.broadcast_in_dim(root, c.shape, (d,)), c.dtype))
    low, high = (number(root, v) for v in (-1, 1))
    if convert.is_kind(c, np.complexfloating):
        return point.complex_(*(
            point.clamp(low, part, high) for part in (point.real(c), point.imag(c))))  # fmt: skip
    return point.clamp(low, c, high)


# Convolution of vectors


def convolve(
    a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The convolution of two 1-d arrays.

    mode: 'full' (every overlap), 'same' (as long as the longer, centred), 'valid' (whole overlaps).

    >>> import covector.numpy as cnp
    >>> cnp.convolve(cnp.array([1.0, 2.0]), cnp.array([1.0, 1.0])).tolist()
    [1.0, 3.0, 2.0]
    """
    return _convolve("convolve", a, v, mode, precision, preferred_element_type)


def correlate(
    a: Any, v: Any, mode: str = "valid", *, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """The correlation of two 1-d arrays: the convolution with the reverse of `v`, conjugated.

    >>> import covector.numpy as cnp
    >>> cnp.correlate(cnp.array([1.0, 2.0, 3.0]), cnp.array([0.0, 1.0])).tolist()
    [2.0, 3.0]
    """
    return _convolve("correlate", a, v, mode, precision, preferred_element_type)


def _convolve(who: str, a: Any, v: Any, mode: str, precision: Any, preferred: Any) -> Any:
    x, y = (array_operand(who, z) for z in promote_inexact(*operands(who, a, v)))
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"{who}() only support 1-dimensional inputs.")
    if not x.size or not y.size:
        raise ValueError(f"{who}: inputs cannot be empty, got shapes {x.shape} and {y.shape}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    swapped = x.size < y.size
    if who == "correlate":
        y = ops.shape.rev(conj(y), (0,))
    if swapped:
        x, y = y, x
    n, m = x.size, y.size
    start, length = 0, n + m - 1
    if mode != "full":
        start = (m - 1) // 2 if mode == "same" else m - 1
        length = n if mode == "same" else n - m + 1
    if mode == "same" and who == "correlate" and swapped:
        start = m // 2
    padding = (m - 1 - start, start + length - n)
    plain = ops.convolution.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    op = ops.convolution.ConvGeneralDilated(
        (1,), (padding,), (1,), (1,), plain, 1, 1, precision, user_dtype(preferred, who)
    )
    window = ops.shape.rev(ops.shape.reshape(y, (1, 1, m)), (2,))
    return ops.shape.reshape(op(ops.shape.reshape(x, (1, 1, n)), window), (length,))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix of the powers of the elements of a 1-d array, N columns of them.

    >>> import covector.numpy as cnp
    >>> cnp.vander(cnp.array([2, 3])).tolist()
    [[2, 1], [3, 1]]
    """
    x = array_operand("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    count = x.shape[0] if N is None else operator.index(N)
    if count < 0:
        raise ValueError("N must be nonnegative")
    columns = [ops.shape.full(x.shape, 1, x.dtype)]
    for _ in range(count - 1):
        columns.append(_times(columns[-1], x))
    if not count:
        return ops.shape.full((x.size, 0), 0, x.dtype)
    return ops.shape.stack(columns if increasing else columns[::-1], 1)


def _times(x: Any, y: Any) -> Any:
    return point.and_(x, y) if typeof(x).dtype == np.bool_ else point.mul(x, y)
