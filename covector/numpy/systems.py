"""Linear systems and what is made of them: inverses, determinants, least squares, ranks."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base.named_tuple import NamedTuple
from covector.api.custom_jvp import custom_jvp
from covector.api.jit import jit
from covector.ir.values import typeof
from covector.numpy import _shape, convert
from covector.numpy.convert import ShapeError, array_operand, operands, promote_inexact
from covector.numpy.factors import inexact, matrices, square, svd
from covector.ops.linalg import lu as _lu
from covector.ops.linalg import parts
from covector.ops.linalg import qr as _qr
from covector.ops.linalg.triangular import triangular_solve

point = ops.pointwise
like = ops.families.like


class SlogdetResult(NamedTuple):
    """What `slogdet` gives: sign, logabsdet."""

    sign: Any
    logabsdet: Any


def solve(a: Any, b: Any) -> Any:
    """`x` with a x = b, of square matrices, by LU factors with pivoting.

    b: a vector (one axis) or matrices; batch axes are broadcast.  ValueError for shapes that don't
    fit.  Infinite or NaN where `a` is singular.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.solve(cnp.array([[2.0, 0.0], [1.0, 4.0]]), cnp.array([2.0, 9.0])).tolist()
    [1.0, 2.0]
    """
    left, right = promote_inexact(*operands("solve", a, b))
    x, y = square("solve", left), inexact("solve", right)
    if y.ndim < 1 or y.shape[-2 if y.ndim > 1 else -1] != x.shape[-1]:
        raise ShapeError(
            f"solve: b must be a vector or matrices of {x.shape[-1]} rows, as a of {x.shape} has; "
            f"got {y.shape}"
        )
    return _solve(x, y)


@jit
def _solve(x: Any, y: Any) -> Any:
    """Of a vector, or of matrices, whose batch is broadcast."""
    if y.ndim == 1:
        return ops.shape.squeeze(_solve(x, ops.shape.expand_dims(y, (1,))), (x.ndim - 1,))
    if x.ndim == 2 and y.ndim > 2:  # one matrix: the batch is more columns
        n, columns = x.shape[0], y.shape[-1]
        moved = ops.shape.move_axis(y, y.ndim - 2, 0)
        flat = ops.shape.reshape(moved, (n, math.prod(y.shape[:-2]) * columns))
        found = ops.shape.reshape(_lu.solve(x, flat), typeof(moved).shape)
        return ops.shape.move_axis(found, 0, y.ndim - 2)
    batch = convert.broadcast_shapes("solve", x.shape[:-2], y.shape[:-2])
    x, y = (convert.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, y))
    return _lu.solve(x, y)


def inv(a: Any) -> Any:
    """The inverse of square matrices; infinite or NaN where one is singular.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.inv(cnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return _inverse(square("inv", a))


@jit
def _inverse(x: Any) -> Any:
    return _lu.solve(x, parts.identity_like(ops.shape.zeros(typeof(x))))


# Determinants


def det(a: Any) -> Any:
    """The determinant of square matrices.  Its derivative is there for singular ones too.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.det(cnp.array([[1.0, 2.0], [3.0, 4.0]])).round(5).tolist()
    -2.0
    """
    x = square("det", a)
    n = x.shape[-1]
    if n <= 3:
        return _small_determinant(x, n)
    return _determinant(x)


def _small_determinant(x: Any, n: int) -> Any:
    """Leibniz's formula."""
    element = lambda i, j: ops.shape.squeeze(  # noqa: E731
        ops.pieces.slice_along(
            ops.pieces.slice_along(x, x.ndim - 2, i, i + 1), x.ndim - 1, j, j + 1
        ),
        (x.ndim - 2, x.ndim - 1),
    )
    if n == 0:
        return ops.shape.full(x.shape[:-2], 1, x.dtype)
    if n == 1:
        return element(0, 0)
    minor = lambda i, j, k, m: point.sub(  # noqa: E731
        point.mul(element(i, k), element(j, m)), point.mul(element(i, m), element(j, k))
    )
    if n == 2:
        return minor(0, 1, 0, 1)
    first = point.mul(element(0, 0), minor(1, 2, 1, 2))
    second = point.mul(element(0, 1), minor(1, 2, 0, 2))
    third = point.mul(element(0, 2), minor(1, 2, 0, 1))
    return point.add(point.sub(first, second), third)


def _parity(pivots: Any) -> Any:
    """Whether rows were swapped an odd number of times."""
    ndim = typeof(pivots).ndim
    rows = ops.shape.iota(parts.INT32, typeof(pivots).shape, ndim - 1)
    swapped = ops.cast.convert_element_type(point.ne(pivots, rows), parts.INT32)
    count = ops.reduce.reduce_sum(swapped, (ndim - 1,))
    return point.eq(point.and_(count, like(count, 1)), like(count, 1))


@custom_jvp
def _determinant(x: Any) -> Any:
    factors, pivots, _ = _lu.lu(x)
    diagonal = parts.diagonal(factors)
    product = ops.reduce.reduce_prod(diagonal, (typeof(diagonal).ndim - 1,))
    return point.where(_parity(pivots), point.neg(product), product)


@_determinant.defjvp
def _(primals: Any, tangents: Any) -> Any:
    """The trace of adj(x) dx (Jacobi's formula)."""
    (x,), (t,) = primals, tangents
    return _determinant(x), _trace(parts.matmul(_adjugate(x), t))


def _trace(x: Any) -> Any:
    diagonal = parts.diagonal(x)
    return ops.reduce.reduce_sum(diagonal, (typeof(diagonal).ndim - 1,))


@custom_jvp
def _adjugate(x: Any) -> Any:
    """adj(x), of which x adj(x) = det(x); of singular matrices too.

    With x[:, columns] = q r, adj(x) is that of r, between q's adjoint and the columns' order; and
    with r = [[s, c], [0, e]], whose e is the least, adj(r) = [[e adj(s), -adj(s) c], [0, det(s)]].
    """
    n, last = typeof(x).shape[-1], typeof(x).ndim - 1
    q, r, columns = _qr.Qr(True, True)(x)
    cut = lambda v, rows, cols: ops.pieces.slice_along(  # noqa: E731
        ops.pieces.slice_along(v, last - 1, *rows), last, *cols
    )
    s, c = cut(r, (0, n - 1), (0, n - 1)), cut(r, (0, n - 1), (n - 1, n))
    e = cut(r, (n - 1, n), (n - 1, n))
    pivots = parts.diagonal(s)
    det_s = ops.reduce.reduce_prod(pivots, (last - 1,))
    spread = lambda v, like_: ops.shape.broadcast_in_dim(  # noqa: E731
        v, typeof(like_).shape, tuple(range(last - 1))
    )
    # A rank below n - 1: no minor of n - 1 rows is left.
    none = point.eq(det_s, like(det_s, 0))
    safe = point.where(spread(none, s), parts.identity_like(s), s)
    adj_s = point.mul(
        triangular_solve(safe, parts.identity_like(s), left_side=True), spread(det_s, s)
    )
    row = ops.pieces.concatenate(
        [point.mul(adj_s, ops.shape.broadcast_in_dim(e, typeof(s).shape, tuple(range(last + 1)))),
         point.neg(parts.matmul(adj_s, c))], last,
    )  # fmt: skip
    zeros = ops.shape.zeros(typeof(cut(r, (n - 1, n), (0, n - 1))))
    low = ops.pieces.concatenate([zeros, ops.shape.expand_dims(det_s, (last - 1, last))], last)
    adj_r = ops.pieces.concatenate([row, low], last - 1)
    turned = parts.matmul(adj_r, parts.adjoint(q))
    rows = _lu.take_rows(turned, _lu.inverse_order(columns))
    sign = point.mul(_determinant(q), _order_sign(columns, typeof(x).dtype))
    return point.mul(rows, spread(sign, rows))


def _order_sign(order: Any, dtype: Any) -> Any:
    """The sign of a permutation: the determinant of its matrix."""
    n = typeof(order).shape[-1]
    spread = parts.as_columns(order, n)
    _, columns = parts.rows_and_columns(spread)
    matrix = ops.cast.convert_element_type(point.eq(spread, columns), dtype)
    return _determinant(matrix)


@_adjugate.defjvp
def _(primals: Any, tangents: Any) -> Any:
    """With m = x⁻¹ dx: tr(m) adj(x) - m adj(x).  Of singular matrices it isn't finite."""
    (x,), (t,) = primals, tangents
    adjugate, inside = _adjugate(x), _lu.solve(x, t)
    scale = ops.shape.broadcast_in_dim(
        _trace(inside), typeof(x).shape, tuple(range(typeof(x).ndim - 2))
    )
    return adjugate, point.sub(point.mul(scale, adjugate), parts.matmul(inside, adjugate))


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """SlogdetResult(sign, logabsdet): the determinant is sign * exp(logabsdet).

    sign: -1, 0 or 1, or a complex number of size 1.  method: 'lu' (None) or 'qr', which takes the
    diagonal of R; ValueError for another.

    >>> import covector.numpy as cnp
    >>> sign, logabsdet = cnp.linalg.slogdet(cnp.array([[1.0, 0.0], [0.0, -1.0]]))
    >>> sign.tolist(), logabsdet.tolist()
    (-1.0, 0.0)
    """
    x = square("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    return SlogdetResult(*_slogdet(x, method or "lu"))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _slogdet(x: Any, method: str) -> Any:
    if method == "lu":
        factors, pivots, _ = _lu.lu(x)
        return _signs_and_logs(parts.diagonal(factors), _parity(pivots))
    q, r = _qr.Qr(False, False)(x)
    sign, logs = _signs_and_logs(parts.diagonal(r), None)
    return point.mul(sign, _slogdet(q, "lu")[0]), logs


def _signs_and_logs(diagonal: Any, odd: Any) -> tuple[Any, Any]:
    axis = (typeof(diagonal).ndim - 1,)
    size = point.abs_(diagonal)
    logs = ops.reduce.reduce_sum(point.log(size), axis)
    sign = ops.reduce.reduce_prod(point.sign(diagonal), axis)
    return (sign if odd is None else point.where(odd, point.neg(sign), sign)), logs


@_slogdet.defjvp
def _(method: str, primals: Any, tangents: Any) -> Any:
    """The trace of x⁻¹ dx."""
    (x,), (t,) = primals, tangents
    sign, logs = _slogdet(x, method)
    change = _trace(_lu.solve(x, t))
    if not parts.is_complex(x):
        return (sign, logs), (ops.shape.zeros(typeof(sign)), change)
    along = point.complex_(ops.shape.zeros(typeof(logs)), point.imag(change))
    return (sign, logs), (point.mul(sign, along), point.real(change))


# Least squares


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The pseudo-inverse of matrices, by singular values above rtol times the largest one.

    rtol: 10 max(m, n) eps if None; `rcond` is another name for it.  hermitian: `a` is.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.pinv(cnp.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    x = matrices("pinv", a)
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: pass rtol or rcond, which is another name for it; not both")
    limit = rcond if rtol is None else rtol
    if limit is None:
        limit = 10.0 * max(x.shape[-2:]) * float(dtypes.finfo(x.dtype).eps)
    real = parts.real_dtype(x.dtype)
    return _pseudo_inverse(x, convert.strong(array_operand("pinv", limit), real), hermitian)[0]


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _pseudo_inverse(x: Any, limit: Any, hermitian: bool) -> Any:
    """(the pseudo-inverse, singular values)."""
    p, s, _, _ = _pseudo_parts(x, limit, hermitian)
    return p, s


def _pseudo_parts(x: Any, limit: Any, hermitian: bool) -> tuple[Any, Any, Any, Any]:
    m, n = typeof(x).shape[-2:]
    if not typeof(x).size:
        s = ops.shape.full((*typeof(x).shape[:-2], min(m, n)), 0, parts.real_dtype(typeof(x).dtype))
        return parts.adjoint(x), s, None, None
    u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
    axis = typeof(s).ndim - 1
    top = ops.pieces.slice_along(s, axis, 0, 1)
    bound = point.mul(convert.broadcast_to(top, typeof(s).shape), _limit_like(limit, s))
    kept = point.gt(s, bound)
    inverse = parts.where(kept, point.reciprocal(parts.where(kept, s, 1)), 0)
    p = parts.matmul(parts.scale_columns(parts.adjoint(vh), inverse), parts.adjoint(u))
    return p, s, u, vh


def _limit_like(limit: Any, s: Any) -> Any:
    """One limit for each matrix."""
    ndim = typeof(limit).ndim
    if ndim:
        limit = ops.shape.expand_dims(limit, (ndim,))
    return convert.broadcast_to(limit, typeof(s).shape)


@_pseudo_inverse.defjvp
def _(hermitian: bool, primals: Any, tangents: Any) -> Any:
    """Golub and Pereyra 1973, formula 4.12: right for equal singular values too."""
    (x, limit), (t, _) = primals, tangents
    p, s, u, vh = _pseudo_parts(x, limit, hermitian)
    if u is None:
        return (p, s), (parts.adjoint(t), ops.shape.zeros(typeof(s)))
    mm, back = parts.matmul, parts.adjoint(t)
    p, s = _pseudo_inverse(x, limit, hermitian)
    ph = parts.adjoint(p)
    change = point.neg(mm(p, mm(t, p)))
    left = mm(mm(p, ph), back)
    change = point.add(change, point.sub(left, mm(mm(left, x), p)))
    right = mm(back, mm(ph, p))
    change = point.add(change, point.sub(right, mm(p, mm(x, right))))
    u, vh = ops.select.stop_gradient(u), ops.select.stop_gradient(vh)
    values = parts.real(parts.diagonal(mm(mm(parts.adjoint(u), t), parts.adjoint(vh))))
    return (p, s), (change, values)


def lstsq(a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False) -> Any:
    """(x, residuals, rank, s): `x` of least size among those that make the size of a x - b least.

    a: an m x n matrix; b: m elements, or m rows.  rcond: singular values below it times the
    largest one count as 0; max(m, n) eps if None.  residuals: the squared size of a x - b, by
    column; with `numpy_resid`, empty unless m > n = rank.  s: the singular values.

    >>> import covector.numpy as cnp
    >>> a = cnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> cnp.linalg.lstsq(a, cnp.array([1.0, 3.0, 5.0]))[0].round(4).tolist()
    [1.0, 2.0]
    """
    left, right = promote_inexact(*operands("lstsq", a, b))
    x, y = inexact("lstsq", left), inexact("lstsq", right)
    if not x.ndim or not y.ndim or y.shape[0] != x.shape[0]:
        raise ValueError(f"Leading dimensions of input arrays must match; got {x.shape}, {y.shape}")
    if x.ndim != 2:
        raise TypeError(f"{x.ndim}-dimensional array given. Array must be two-dimensional")
    if y.ndim not in (1, 2):
        raise TypeError(f"{y.ndim}-dimensional array given. Array must be one or two-dimensional")
    (m, n), vector = x.shape, y.ndim == 1
    y = ops.shape.expand_dims(y, (1,)) if vector else y
    eps = float(dtypes.finfo(x.dtype).eps)
    given = eps * max(m, n) if rcond is None else eps if rcond < 0 else rcond
    limit = convert.strong(array_operand("lstsq", given), parts.real_dtype(x.dtype))
    p, s = _pseudo_inverse(x, limit, False)
    out = parts.matmul(p, y)
    if s.size:
        kept = point.gt(s, point.mul(convert.broadcast_to(s[:1], s.shape), limit))
        rank = ops.reduce.reduce_sum(convert.strong(kept, dtypes.default_int()), (0,))
    else:
        rank = convert.strong(0, dtypes.default_int())
    wrong = point.sub(y, parts.matmul(x, out))
    squares = point.real(point.mul(wrong, parts.conj(wrong))) if parts.is_complex(wrong) else (
        point.square(wrong)
    )  # fmt: skip
    residuals = ops.reduce.reduce_sum(squares, (0,))
    if numpy_resid and (m <= n or int(convert.concrete(rank, "the shape of residuals")) < n):
        residuals = residuals[:0]
    return (ops.shape.squeeze(out, (1,)) if vector else out), residuals, rank, s


def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """How many singular values of matrices are above rtol times the largest one.

    rtol: max(m, n) eps if None; `tol` is an absolute bound instead.  Of a vector: whether an
    element isn't 0.  hermitian: `M` is.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.matrix_rank(cnp.ones((3, 2))).tolist()
    1
    """
    x = inexact("matrix_rank", M)
    if x.ndim < 2:
        zero = convert.number(x, 0)
        found = point.ne(x, zero)
        axes = tuple(range(x.ndim))
        return convert.strong(ops.reduce.reduce_or(found, axes), np.dtype(np.int32))
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank: pass rtol or tol, not both")
    if not x.size:
        return ops.shape.full(x.shape[:-2], 0, dtypes.default_int())
    s = svd(x, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if tol is not None:
        bound = _limit_like(convert.strong(array_operand("matrix_rank", tol), s.dtype), s)
    else:
        eps = max(x.shape[-2:]) * float(dtypes.finfo(s.dtype).eps)
        given = array_operand("matrix_rank", eps if rtol is None else rtol)
        top = ops.pieces.slice_along(s, s.ndim - 1, 0, 1)
        limit = _limit_like(convert.strong(given, s.dtype), s)
        bound = point.mul(convert.broadcast_to(top, s.shape), limit)
    above = convert.strong(point.gt(s, bound), dtypes.default_int())
    return ops.reduce.reduce_sum(above, (s.ndim - 1,))


# Tensors


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of `a` as a map from its axes after `ind` to those before.

    ValueError unless `ind` is positive and both groups have as many elements.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.tensorinv(cnp.eye(4).reshape(4, 2, 2), ind=1).shape
    (2, 2, 4)
    """
    x = inexact("tensorinv", a)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    shape = x.shape[ind:] + x.shape[:ind]
    rows, columns = math.prod(x.shape[:ind]), math.prod(x.shape[ind:])
    return ops.shape.reshape(inv(ops.shape.reshape(x, (rows, columns))), shape)


def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    """`x` with tensordot(a, x, x.ndim) = b; `axes` of `a` are first moved to its end.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.tensorsolve(cnp.eye(4).reshape(2, 2, 4), cnp.ones((2, 2))).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    left, right = promote_inexact(*operands("tensorsolve", a, b))
    x, y = inexact("tensorsolve", left), inexact("tensorsolve", right)
    if axes is not None:
        moved = [d % x.ndim for d in axes]
        x = _shape.transpose(x, [d for d in range(x.ndim) if d not in moved] + moved)
    shape = x.shape[y.ndim :]
    if math.prod(x.shape[: y.ndim]) != math.prod(shape) or y.size != math.prod(shape):
        raise ValueError(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"a.shape={x.shape}, b.ndim={y.ndim}."
        )
    matrix = ops.shape.reshape(x, (y.size, math.prod(shape)))
    return ops.shape.reshape(_solve(matrix, ops.shape.reshape(y, (y.size,))), shape)
