"""Bits packed into bytes; greatest common divisors; window functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.lax import while_loop
from covector.numpy import convert
from covector.numpy._elementwise import nonzero_mask
from covector.numpy._numbers import i0
from covector.numpy.convert import (
    array_operand,
    canonical_axis,
    cast,
    is_kind,
    number,
    operands,
    promote,
)

point = ops.pointwise
BYTE = np.dtype(np.uint8)


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight elements along `axis` (None: of the flat array) as the bits of one byte.

    bitorder: whether the first is the highest bit ('big') or the lowest ('little').

    >>> import covector.numpy as cnp
    >>> cnp.packbits(cnp.array([1, 0, 1])).tolist()
    [160]
    """
    x = array_operand("packbits", a)
    if not (is_kind(x, np.integer) or x.dtype == np.bool_):
        raise TypeError("Expected an input array of integer or boolean data type")
    x, axis = _line(x, axis, "packbits")
    bits = cast(nonzero_mask(x), BYTE)
    n = x.shape[axis]
    count = -(-n // 8)
    config = [(0, 8 * count - n if d == axis else 0, 0) for d in range(x.ndim)]
    bits = ops.shape.pad(bits, 0, config)
    groups = ops.shape.reshape(bits, (*x.shape[:axis], count, 8, *x.shape[axis + 1 :]))
    shifts = ops.shape.broadcast_in_dim(_shifts(bitorder), typeof(groups).shape, (axis + 1,))
    return ops.reduce.reduce_or(point.shift_left(groups, shifts), (axis + 1,))


def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of bytes, along `axis` (None: of the flat array).

    count: how many; a negative number leaves so many out at the end.

    >>> import covector.numpy as cnp
    >>> cnp.unpackbits(cnp.array([5], dtype="uint8")).tolist()
    [0, 0, 0, 0, 0, 1, 0, 1]
    """
    x = array_operand("unpackbits", a)
    if x.dtype != BYTE:
        raise TypeError("Expected an input array of unsigned byte data type")
    x, axis = _line(x, axis, "unpackbits")
    wide = (*x.shape[: axis + 1], 8, *x.shape[axis + 1 :])
    places = [d for d in range(len(wide)) if d != axis + 1]
    spread = ops.shape.broadcast_in_dim(x, wide, places)
    shifts = ops.shape.broadcast_in_dim(_shifts(bitorder), wide, (axis + 1,))
    bits = point.and_(point.shift_right_logical(spread, shifts), BYTE.type(1))
    n = 8 * x.shape[axis]
    out = ops.shape.reshape(bits, (*x.shape[:axis], n, *x.shape[axis + 1 :]))
    if count is None:
        return out
    wanted = operator.index(count)
    wanted = n + wanted if wanted < 0 else wanted
    config = [(0, wanted - n if d == axis else 0, 0) for d in range(x.ndim)]
    return ops.shape.pad(out, 0, config)


def _line(x: Any, axis: int | None, who: str) -> tuple[Any, int]:
    if axis is None:
        return ops.shape.reshape(x, (x.size,)), 0
    return x, canonical_axis(axis, x.ndim, who)


def _shifts(bitorder: str) -> Any:
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    places = np.arange(8, dtype=np.uint8)
    return as_array(places if bitorder == "little" else places[::-1].copy())


def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisor of integers, not negative (Euclid's algorithm).

    >>> import covector.numpy as cnp
    >>> cnp.gcd(12, 18).tolist()
    6
    """
    return _gcd(*_magnitudes("gcd", x1, x2))


def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiple of integers, not negative.

    >>> import covector.numpy as cnp
    >>> cnp.lcm(4, 6).tolist()
    12
    """
    x, y = _magnitudes("lcm", x1, x2)
    divisor = _gcd(x, y)
    zero, one = (ops.families.like(divisor, v) for v in (0, 1))
    safe = convert.select(point.eq(divisor, zero), one, divisor)
    out = point.mul(x, point.div(y, safe))
    return convert.select(point.eq(divisor, zero), zero, out)


def _magnitudes(who: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    x, y = promote(*operands(who, x1, x2))
    if not is_kind(x, np.integer):
        raise ValueError(f"Arguments to {who} must be integers; got {typeof(x).dtype}")
    x, y = (as_array(v) for v in convert.broadcast_all(who, x, y))
    if is_kind(x, np.unsignedinteger):
        return x, y
    return point.abs_(x), point.abs_(y)


def _gcd(x: Any, y: Any) -> Any:
    """Every step leaves (y, x mod y); where y is 0 already, x stays."""
    zero, one = (ops.families.like(x, v) for v in (0, 1))

    def step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        x, y = pair
        done = point.eq(y, zero)
        rest = point.rem(x, convert.select(done, one, y))
        return convert.select(done, x, y), convert.select(done, y, rest)

    def unfinished(pair: tuple[Any, Any]) -> Any:
        mask = point.ne(pair[1], zero)
        return ops.reduce.reduce_or(mask, tuple(range(typeof(mask).ndim)))

    return while_loop(unfinished, step, (x, y))[0]


# Window functions


def _line_of(count: int, who: str) -> Any:
    """0, 1, … in the default float, for a window of `count` points."""
    n = operator.index(convert.concrete(count, f"the number of points of {who}")[()])
    return ops.shape.iota(dtypes.default_float(), (max(n, 0),), 0), n


def _cosines(who: str, count: int, *coefficients: float) -> Any:
    """The sum of coefficients[k] cos(2 pi k n / (count - 1)); 1 for a single point."""
    line, n = _line_of(count, who)
    if n <= 1:
        return ops.shape.full((max(n, 0),), 1, dtypes.default_float())
    total = ops.shape.full((n,), coefficients[0], dtypes.default_float())
    for k, c in enumerate(coefficients[1:], 1):
        angle = point.mul(line, number(line, 2 * np.pi * k / (n - 1)))
        total = point.add(total, point.mul(point.cos(angle), number(line, c)))
    return total


def blackman(M: int) -> Any:
    """The Blackman window of M points.

    >>> import covector.numpy as cnp
    >>> round(cnp.blackman(3)[1].tolist(), 4)
    1.0
    """
    return _cosines("blackman", M, 0.42, -0.5, 0.08)


def hamming(M: int) -> Any:
    """The Hamming window of M points.

    >>> import covector.numpy as cnp
    >>> round(cnp.hamming(3)[0].tolist(), 4)
    0.08
    """
    return _cosines("hamming", M, 0.54, -0.46)


def hanning(M: int) -> Any:
    """The Hann window of M points.

    >>> import covector.numpy as cnp
    >>> cnp.hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _cosines("hanning", M, 0.5, -0.5)


def bartlett(M: int) -> Any:
    """The triangular window of M points, 0 at both ends.

    >>> import covector.numpy as cnp
    >>> cnp.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    line, n = _line_of(M, "bartlett")
    if n <= 1:
        return ops.shape.full((max(n, 0),), 1, dtypes.default_float())
    gap = point.abs_(point.sub(point.mul(line, number(line, 2)), number(line, n - 1)))
    return point.sub(number(line, 1), point.div(gap, number(line, n - 1)))


def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window of M points with the shape `beta`.

    >>> import covector.numpy as cnp
    >>> cnp.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    line, n = _line_of(M, "kaiser")
    if n <= 1:
        return ops.shape.full((max(n, 0),), 1, dtypes.default_float())
    beta = cast(array_operand("kaiser", beta), dtypes.default_float())
    half = number(line, 0.5 * (n - 1))
    place = point.div(point.sub(line, half), half)
    root = point.sqrt(point.max_(point.sub(number(line, 1), point.square(place)), number(line, 0)))
    return point.div(i0(point.mul(beta, root)), i0(beta))
