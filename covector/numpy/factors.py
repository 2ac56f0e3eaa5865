"""Factors of matrices and their eigenvalues, as NumPy names them; see `covector.lax.linalg`."""

from __future__ import annotations

from typing import Any

from covector import dtypes, ops
from covector._base.named_tuple import NamedTuple
from covector.lax import linalg as lax_linalg
from covector.numpy import convert
from covector.numpy.convert import ShapeError, array_operand
from covector.ops.linalg import eigen, parts
from covector.ops.linalg import qr as _qr
from covector.ops.linalg import svd as _svd

point = ops.pointwise


class QRResult(NamedTuple):
    """What `qr` gives: Q, R."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What `svd` gives: U, S, Vh."""

    U: Any
    S: Any
    Vh: Any


class EighResult(NamedTuple):
    """What `eigh` gives: eigenvalues, eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """What `eig` gives: eigenvalues, eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


def inexact(who: str, x: Any) -> Any:
    """`x`, of which integers and booleans become floats."""
    x = array_operand(who, x)
    return convert.strong(x, dtypes.to_inexact_dtype(x.dtype))


def matrices(who: str, x: Any) -> Any:
    """`x` as matrices; ShapeError for fewer axes."""
    x = inexact(who, x)
    if x.ndim < 2:
        raise ShapeError(f"{who}: needs an array of two axes or more; got shape {x.shape}")
    return x


def square(who: str, x: Any) -> Any:
    """`x` as square matrices; ShapeError for others."""
    x = inexact(who, x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"Argument to {who} must have shape [..., n, n], got {x.shape}")
    return x


def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The lower triangle L with L Lᴴ = a of Hermitian positive definite matrices; with `upper`,
    U with Uᴴ U = a.

    symmetrize_input: (a + aᴴ) / 2 is taken instead; else only one triangle is read.  The result is
    NaN where a matrix isn't positive definite.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.cholesky(cnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = square("cholesky", a)
    x = parts.adjoint(x) if upper and not symmetrize_input else x
    factor = lax_linalg.cholesky(x, symmetrize_input=symmetrize_input)
    return parts.adjoint(factor) if upper else factor


def qr(a: Any, mode: str = "reduced") -> Any:
    """QRResult(Q, R) with a = Q R, Q's columns orthonormal, R an upper triangle.

    mode: 'reduced', Q of min(m, n) columns; 'complete', square Q; 'r', R alone; 'raw', LAPACK's
    reflections (transposed, as NumPy has them) and their factors.  ValueError for another mode.

    >>> import covector.numpy as cnp
    >>> abs(cnp.linalg.qr(cnp.array([[3.0], [4.0]])).R).tolist()
    [[5.0]]
    """
    x = matrices("qr", a)
    if mode == "raw":
        packed, taus = _qr.geqrf(x)
        return QRResult(parts.transposed(packed), taus)
    if mode not in ("reduced", "r", "complete", "full"):
        raise ValueError(
            f"Unsupported QR decomposition mode {mode!r}; wanted 'reduced', 'complete', 'r' or "
            "'raw'"
        )
    q, r = lax_linalg.qr(x, full_matrices=mode in ("complete", "full"))
    return r if mode == "r" else QRResult(q, r)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """SVDResult(U, S, Vh) with a = U diag(S) Vh, or S alone; S descends.

    full_matrices: U and Vh are square; else of min(m, n) columns and rows.  hermitian: `a` is, and
    its eigenvalues are taken.  `subset_by_index`: only values start to end.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.svd(cnp.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    x = matrices("svd", a)
    if hermitian:
        return _hermitian_svd(x, compute_uv, subset_by_index)
    found = lax_linalg.svd(
        x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
    )
    return SVDResult(*found) if compute_uv else found


def _hermitian_svd(x: Any, compute_uv: bool, subset: tuple[int, int] | None) -> Any:
    v, w = lax_linalg.eigh(x)
    size = point.abs_(w)
    order = ops.sort.argsort(point.neg(ops.select.stop_gradient(size)), w.ndim - 1)
    s = ops.sort.take_along(size, order, w.ndim - 1)
    cut = lambda y, axis: y if subset is None else ops.pieces.slice_along(y, axis, *subset)  # noqa: E731
    if not compute_uv:
        return cut(s, w.ndim - 1)
    v = _qr.take_columns(v, order)
    flips = ops.sort.take_along(point.sign(w), order, w.ndim - 1)
    flips = parts.where(point.eq(flips, ops.families.like(flips, 0)), 1, flips)
    vh = parts.adjoint(parts.scale_columns(v, flips))
    return SVDResult(cut(v, x.ndim - 1), cut(s, w.ndim - 1), cut(vh, x.ndim - 2))


def svdvals(x: Any, /) -> Any:
    """The singular values of matrices; they descend.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.svdvals(cnp.array([[3.0, 0.0], [0.0, -4.0]])).tolist()
    [4.0, 3.0]
    """
    return _svd.Svd(False, False)(matrices("svdvals", x))[0]


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """EighResult(eigenvalues, eigenvectors) of Hermitian matrices: real values, ascending, and unit
    vectors as columns.

    UPLO: the triangle, 'L' (None) or 'U', that is read if not symmetrize_input; else (a + aᴴ) / 2
    is taken.  ValueError for another UPLO.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.eigh(cnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    x = square("eigh", a)
    lower = _is_lower(UPLO)
    v, w = lax_linalg.eigh(x, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def _is_lower(uplo: str | None) -> bool:
    if uplo not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {uplo}")
    return uplo != "U"


def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The real eigenvalues of Hermitian matrices, ascending; see `eigh`.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.eigvalsh(cnp.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    x = square("eigvalsh", a)
    lower = _is_lower(UPLO)
    x = parts.symmetrized(x) if symmetrize_input else x
    return eigen.Eigh(lower, False)(x)[0]


def eig(a: Any) -> EigResult:
    """EigResult(eigenvalues, eigenvectors) of any square matrices: complex, in no order, the unit
    vectors as columns, each with a real largest element.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.eig(cnp.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    w, v = lax_linalg.eig(square("eig", a), compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: Any) -> Any:
    """The complex eigenvalues of any square matrices, in no order.

    >>> import covector.numpy as cnp
    >>> cnp.linalg.eigvals(cnp.array([[0.0, 1.0], [-1.0, 0.0]])).tolist()
    [1j, -1j]
    """
    x = square("eigvals", a)
    return eigen.Eig(False, False)(x)[0]
