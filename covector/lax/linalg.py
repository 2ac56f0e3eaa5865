"""`covector.lax.linalg`: one function for each operation of linear algebra.

Matrices are the last two axes, axes before them a batch; dtypes are float32, float64, complex64
and complex128.  Nothing is promoted or broadcast: `covector.numpy.linalg` is the lenient layer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from covector import ops
from covector.api.arrays import as_array
from covector.api.jit import jit
from covector.ir.values import typeof
from covector.lax import _primitives
from covector.lax._control import scan
from covector.ops.linalg import banded, eigen, forms, parts, triangular
from covector.ops.linalg import lu as _lu
from covector.ops.linalg import qr as _qr
from covector.ops.linalg import svd as _svd

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_update",
    "eig",
    "eigh",
    "hessenberg",
    "householder_product",
    "lu",
    "lu_pivots_to_permutation",
    "ormqr",
    "qr",
    "schur",
    "svd",
    "symmetric_product",
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
]

point = ops.pointwise
_symmetrized = jit(parts.symmetrized)


class EigImplementation(enum.Enum):
    """Libraries for `eig`; on the CPU it is LAPACK whichever is named."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """Algorithms for `eigh`; on the CPU it is LAPACK's divide and conquer whichever is named."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """Algorithms for `svd`; on the CPU it is LAPACK's divide and conquer whichever is named."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class _ShapeError(TypeError, ValueError):
    """The oracle has the one or the other."""


def _square(who: str, x: Any) -> Any:
    x = as_array(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise _ShapeError(f"{who}: needs square matrices, of shape [..., n, n]; got {x.shape}")
    return x


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangle L with L Lᴴ = x, of Hermitian positive definite matrices.

    symmetrize_input: (x + xᴴ) / 2 is taken instead; else only the lower triangle is read.  L is
    NaN where a matrix isn't positive definite.  Raises ValueError unless matrices are square.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.cholesky(cnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = _square("cholesky", x)
    return triangular.cholesky(_symmetrized(x) if symmetrize_input else x)


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The upper triangle R' with R'ᵀ R' = Rᵀ R + w wᵀ, by one rotation a row
    (Golub and Van Loan, Matrix Computations, 6.5.4).

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.cholesky_update(cnp.array([[3.0]]), cnp.array([4.0])).tolist()
    [[5.0]]
    """
    r, w = _square("cholesky_update", r_matrix), as_array(w_vector)
    if w.shape != r.shape[:-1] or w.dtype != r.dtype:
        raise _ShapeError(
            f"cholesky_update: w_vector must be {typeof(r).str_short()} without its last axis; "
            f"got {typeof(w).str_short()}"
        )
    last = r.ndim - 1

    def rotate(w: Any, given: Any) -> Any:
        row, k = given
        shape = typeof(row).shape
        here = point.eq(
            ops.shape.iota(parts.INT32, shape, last - 1), ops.shape.broadcast_in_dim(k, shape, ())
        )
        a, b = (
            ops.reduce.reduce_sum(parts.where(here, v, 0), (last - 1,)) for v in (row, w)
        )  # fmt: skip
        length = point.sqrt(point.add(point.square(a), point.square(b)))
        c, s = (
            ops.shape.broadcast_in_dim(point.div(v, length), shape, tuple(range(last - 1)))
            for v in (a, b)
        )
        new = point.add(point.mul(c, row), point.mul(s, w))
        return point.sub(point.mul(c, w), point.mul(s, row)), new

    rows = ops.shape.move_axis(r, last - 1, 0)
    numbers = ops.shape.iota(parts.INT32, (r.shape[-1],), 0)
    _, new = scan(rotate, w, (rows, numbers))
    return ops.shape.move_axis(new, 0, last - 1)


def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:  # fmt: skip
    """alpha A Aᵀ + beta C; both triangles, whatever `symmetrize_output` says.

    >>> from covector import lax, numpy as cnp
    >>> a = cnp.array([[1.0, 2.0]])
    >>> lax.linalg.symmetric_product(a, cnp.ones((1, 1)), beta=10.0).tolist()
    [[15.0]]
    """
    del symmetrize_output
    a, c = as_array(a_matrix), as_array(c_matrix)
    product = parts.matmul(a, parts.transposed(a))
    scaled = [
        point.mul(x, ops.families.like(x, n)) for x, n in ((product, alpha), (c, beta))
    ]  # fmt: skip
    return point.add(*scaled)


def triangular_solve(
    a: Any, b: Any, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Any:  # fmt: skip
    """`x` with op(a) x = b (`left_side`), or x op(a) = b.

    Of `a` only the lower or upper triangle is read, without the diagonal if it is taken as ones
    (`unit_diagonal`); op(a) is `a`, transposed, conjugated, or both.  `b` may have one axis less:
    a vector each.  Raises TypeError for dtypes or shapes that differ.

    >>> from covector import lax, numpy as cnp
    >>> a = cnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> lax.linalg.triangular_solve(a, cnp.array([2.0, 9.0]), left_side=True, lower=True).tolist()
    [1.0, 2.0]
    """
    a, b = as_array(a), as_array(b)
    vector = b.ndim == a.ndim - 1
    if not vector and b.ndim != a.ndim:
        raise TypeError(
            "triangular_solve: both arguments must have the same number of batch dimensions; got "
            f"{typeof(a).str_short()} and {typeof(b).str_short()}"
        )
    axis = b.ndim if left_side else b.ndim - 1
    side = ops.shape.expand_dims(b, (axis,)) if vector else b
    out = triangular.triangular_solve(
        a, side, left_side=left_side, lower=lower, transpose_a=transpose_a,
        conjugate_a=conjugate_a and parts.is_complex(a), unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return ops.shape.squeeze(out, (axis,)) if vector else out


def lu(x: Any) -> tuple[Any, Any, Any]:
    """(lu, pivots, permutation): x[permutation] = L U, by rows swapped as `pivots` (int32) say.

    `lu` holds U, and L below the diagonal, whose own diagonal is ones.

    >>> from covector import lax, numpy as cnp
    >>> lu, pivots, permutation = lax.linalg.lu(cnp.array([[1.0, 2.0], [2.0, 6.0]]))
    >>> lu.tolist(), permutation.tolist()
    ([[2.0, 6.0], [0.5, -1.0]], [1, 0])
    """
    return tuple(_lu.lu(as_array(x)))  # pyright: ignore[reportReturnType]


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation of `permutation_size` rows that swaps make: row i with row pivots[i].

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.lu_pivots_to_permutation(cnp.array([2, 2], dtype="int32"), 3).tolist()
    [2, 0, 1]
    """
    return _lu.LuPivotsToPermutation(permutation_size)(as_array(pivots))


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> Any:
    """(q, r) with x = q r, q's columns orthonormal; with `pivoting` (q, r, columns), and
    x[:, columns] = q r.

    full_matrices: q is square; else of min(m, n) columns.  `use_magma` is for GPUs.

    >>> from covector import lax, numpy as cnp
    >>> q, r = lax.linalg.qr(cnp.array([[0.0, 2.0], [3.0, 1.0]]))
    >>> abs(r).tolist()
    [[3.0, 1.0], [0.0, 2.0]]
    """
    del use_magma
    return tuple(_qr.Qr(bool(pivoting), bool(full_matrices))(as_array(x)))


def householder_product(a: Any, taus: Any) -> Any:
    """The first n columns of a product of reflections: I - taus[k] v vᴴ, with v in column k of the
    m x n matrix `a` below its diagonal, and 1 on it.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.householder_product(cnp.zeros((2, 1)), cnp.array([2.0])).tolist()
    [[-1.0], [-0.0]]
    """
    return _qr.householder_product(as_array(a), as_array(taus))


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Q c (or c Q), where Q is the product of all reflections in `a`, `taus`; Qᴴ with `transpose`.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.ormqr(cnp.zeros((2, 1)), cnp.array([2.0]), cnp.ones((2, 1))).tolist()
    [[-1.0], [1.0]]
    """
    return _qr.Ormqr(bool(left), bool(transpose))(as_array(a), as_array(taus), as_array(c))


def svd(
    x: Any, *, full_matrices: bool = True, compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None, algorithm: SvdAlgorithm | None = None,
) -> Any:  # fmt: skip
    """(u, s, vh) with x = u diag(s) vh, or s alone; s descends.

    full_matrices: u and vh are square; else of min(m, n) columns and rows.  `subset_by_index`: only
    values start to end.  `algorithm` is accepted; LAPACK's gesdd it is.  All is NaN where an
    element isn't finite.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.svd(cnp.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    del algorithm
    x = as_array(x)
    if subset_by_index is not None and full_matrices and compute_uv:
        raise ValueError("svd: full_matrices and subset_by_index cannot both be set")
    s, *vectors = _svd.Svd(bool(full_matrices) and bool(compute_uv), bool(compute_uv))(x)
    if subset_by_index is not None:
        s = _subset("svd", s, subset_by_index, s.ndim - 1)
        if vectors:
            axes = (x.ndim - 1, x.ndim - 2)
            vectors = [
                _subset("svd", v, subset_by_index, d) for v, d in zip(vectors, axes, strict=True)
            ]
    return (vectors[0], s, vectors[1]) if compute_uv else s


def _subset(who: str, x: Any, subset: tuple[int, int], axis: int) -> Any:
    start, end = subset
    if not 0 <= start <= end <= x.shape[axis]:
        raise ValueError(
            f"{who}: subset_by_index must be (start, end) within 0 and {x.shape[axis]}; "
            f"got {subset}"
        )
    return ops.pieces.slice_along(x, axis, start, end)


def eigh(
    x: Any, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """(v, w) with x v = v diag(w), of Hermitian matrices: w is real and ascends.

    symmetrize_input: (x + xᴴ) / 2 is taken instead; else only the `lower` or upper triangle is
    read.  Values ascend whatever `sort_eigenvalues` says.  `subset_by_index`: only values start to
    end.  `implementation` is accepted; LAPACK's syevd it is.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.eigh(cnp.array([[2.0, 0.0], [0.0, 1.0]]))[1].tolist()
    [1.0, 2.0]
    """
    del sort_eigenvalues, implementation
    x = _square("eigh", x)
    v, w = eigen.Eigh(bool(lower))(_symmetrized(x) if symmetrize_input else x)
    if subset_by_index is not None:
        v = _subset("eigh", v, subset_by_index, v.ndim - 1)
        w = _subset("eigh", w, subset_by_index, w.ndim - 1)
    return v, w


def eig(
    x: Any, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False, implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:  # fmt: skip
    """[w, vl, vr], all complex: x vr = vr diag(w), vlᴴ x = diag(w) vlᴴ, as asked for.

    Vectors are columns of length 1 whose largest element is real; their derivatives keep both, and
    are there whatever `enable_eigvec_derivs` says.  `implementation`, `use_magma` are for GPUs.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.eig(cnp.array([[0.0, 1.0], [-1.0, 0.0]]))[0].tolist()
    [1j, -1j]
    """
    del enable_eigvec_derivs, implementation, use_magma
    op = eigen.Eig(bool(compute_left_eigenvectors), bool(compute_right_eigenvectors))
    return list(op(_square("eig", x)))


def schur(
    x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """(t, z) with x = z t zᴴ, or (t,): z is unitary, t an upper triangle (real: with 2 x 2 blocks).

    It has no derivative.  Raises NotImplementedError for `sort_eig_vals`, `select_callable`.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.schur(cnp.array([[1.0, 2.0], [0.0, 3.0]]))[0].tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: values cannot be sorted")
    return tuple(forms.Schur(bool(compute_schur_vectors))(_square("schur", x)))


def hessenberg(a: Any) -> tuple[Any, Any]:
    """(packed, taus): the form with zeros below the first subdiagonal; there, reflections.

    It has no derivative.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.hessenberg(cnp.array([[1.0, 2.0], [3.0, 4.0]]))[0].tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return tuple(forms.Hessenberg()(_square("hessenberg", a)))  # pyright: ignore[reportReturnType]


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """(packed, d, e, taus) of Hermitian matrices: the tridiagonal form's diagonal and the next one,
    and reflections that lead there in the lower or upper triangle of `packed`.

    It has no derivative.

    >>> from covector import lax, numpy as cnp
    >>> lax.linalg.tridiagonal(cnp.array([[1.0, 2.0], [2.0, 4.0]]))[1].tolist()
    [1.0, 4.0]
    """
    found = forms.Tridiagonal(bool(lower))(_square("tridiagonal", a))
    return tuple(found)  # pyright: ignore[reportReturnType]


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """`x` with dl[i] x[i - 1] + d[i] x[i] + du[i] x[i + 1] = b[i]; dl[0] and du[-1] are not read.

    Diagonals are vectors of n elements, b matrices of n rows.  `x` is NaN where the matrix is
    singular, whatever `perturb_singular` says.

    >>> from covector import lax, numpy as cnp
    >>> one = cnp.ones(2)
    >>> lax.linalg.tridiagonal_solve(one, 2 * one, one, cnp.full((2, 1), 3.0)).tolist()
    [[1.0], [1.0]]
    """
    del perturb_singular
    return banded.TridiagonalSolve()(*map(as_array, (dl, d, du, b)))


_OWN = ("cholesky", "eig", "eigh", "hessenberg", "householder_product", "lu", "lu_pivots_to_"
        "permutation", "ormqr", "qr", "schur", "svd", "triangular_solve", "tridiagonal",
        "tridiagonal_solve")  # fmt: skip


def __getattr__(name: str) -> Any:
    found = _primitives.primitive(name) if name.removesuffix("_p") in _OWN else None
    if found is None:
        raise AttributeError(f"module 'covector.lax.linalg' has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *(f"{n}_p" for n in _OWN)])
