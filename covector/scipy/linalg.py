"""`covector.scipy.linalg`: SciPy's linear algebra.  Arguments that say how memory may be used or
input checked (`overwrite_a`, `check_finite`, …) are accepted and mean nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.lax import linalg as lax_linalg
from covector.numpy import convert, factors, systems
from covector.ops.linalg import eigen, forms, parts
from covector.ops.linalg import lu as _lu
from covector.ops.linalg import qr as _qr
from covector.scipy._matrix_functions import (
    expm,
    expm_frechet,
    polar,
    solve_sylvester,
    sqrtm,
)

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eigh",
    "expm",
    "expm_frechet",
    "hessenberg",
    "inv",
    "lu",
    "lu_factor",
    "lu_solve",
    "polar",
    "qr",
    "qr_multiply",
    "schur",
    "solve",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "toeplitz",
]

point = ops.pointwise


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The upper triangle U with Uᴴ U = a of Hermitian positive definite matrices, or the lower one.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.cholesky(cnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 1.0], [0.0, 2.0]]
    """
    del overwrite_a, check_finite
    return _cholesky(factors.square("cholesky", a), lower)


def _cholesky(x: Any, lower: bool) -> Any:
    """Of what the named triangle says."""
    factor = lax_linalg.cholesky(x if lower else parts.adjoint(x), symmetrize_input=False)
    return factor if lower else parts.adjoint(factor)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """(Cholesky's factor, lower), for `cho_solve`.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.cho_factor(cnp.array([[4.0]]))[0].tolist()
    [[2.0]]
    """
    return cholesky(a, lower, overwrite_a, check_finite), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """`x` with a x = b, from `cho_factor(a)`; b is a vector or matrices.

    >>> from covector import numpy as cnp, scipy
    >>> factor = scipy.linalg.cho_factor(cnp.array([[4.0]]))
    >>> scipy.linalg.cho_solve(factor, cnp.array([8.0])).tolist()
    [2.0]
    """
    del overwrite_b, check_finite
    c, lower = c_and_lower
    c, y = _pair("cho_solve", c, b)

    def run(c: Any, y: Any) -> Any:
        wide = parts.is_complex(c)
        how: dict[str, Any] = {"left_side": True, "lower": lower}
        flip = {"transpose_a": True, "conjugate_a": wide}
        first, second = ({}, flip) if lower else (flip, {})
        y = lax_linalg.triangular_solve(c, y, **how, **first)
        return lax_linalg.triangular_solve(c, y, **how, **second)

    return _with_sides("cho_solve", run, c, y)


def _pair(who: str, a: Any, b: Any) -> tuple[Any, Any]:
    left, right = convert.promote_inexact(*convert.operands(who, a, b))
    x, y = factors.square(who, left), factors.inexact(who, right)
    return x, y


def _with_sides(who: str, run: Any, x: Any, y: Any) -> Any:
    """`run(matrices, matrices)` for vectors too, with one batch."""
    n = x.shape[-1]
    vector = y.ndim == 1
    if y.ndim > 1 and y.ndim == x.ndim - 1 and y.shape == x.shape[:-1]:
        warnings.warn(
            f"{who}: a batch of vectors as b is deprecated; use b[..., None]",
            FutureWarning,
            stacklevel=4,
        )
        vector = True
    if y.ndim < 1 or y.shape[-1 if vector else -2] != n:
        raise convert.ShapeError(
            f"{who}: b must be a vector or matrices of {n} rows, as the matrix of {x.shape} has; "
            f"got {y.shape}"
        )
    y = ops.shape.expand_dims(y, (y.ndim,)) if vector else y
    batch = convert.broadcast_shapes(who, x.shape[:-2], typeof(y).shape[:-2])
    x, y = (convert.broadcast_to(v, (*batch, *typeof(v).shape[-2:])) for v in (x, y))
    out = run(x, y)
    return ops.shape.squeeze(out, (typeof(out).ndim - 1,)) if vector else out


def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False,
    overwrite_b: bool = False, debug: Any = None, check_finite: bool = True,
) -> Any:  # fmt: skip
    """`x` with op(a) x = b, of the upper or lower triangle of `a`.

    trans: 0 or 'N', 1 or 'T' (transposed), 2 or 'C' (the conjugate transpose); ValueError else.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.solve_triangular(cnp.array([[2.0, 1.0], [9.0, 4.0]]), cnp.array([4.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    del overwrite_b, debug, check_finite
    words = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in words:
        raise ValueError(f"Invalid 'trans' value {trans}; wanted 0, 1, 2, 'N', 'T' or 'C'")
    kind = words[trans]
    x, y = _pair("solve_triangular", a, b)

    def run(x: Any, y: Any) -> Any:
        return lax_linalg.triangular_solve(
            x, y, left_side=True, lower=lower, transpose_a=kind > 0, conjugate_a=kind == 2,
            unit_diagonal=unit_diagonal,
        )  # fmt: skip

    return _with_sides("solve_triangular", run, x, y)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, ...]:
    """(p, l, u) with a = p l u, or (p l, u) with `permute_l`: p a permutation matrix.

    >>> from covector import numpy as cnp, scipy
    >>> [x.tolist() for x in scipy.linalg.lu(cnp.array([[2.0, 4.0], [1.0, 5.0]]))[1:]]
    [[[1.0, 0.0], [0.5, 1.0]], [[2.0, 4.0], [0.0, 3.0]]]
    """
    del overwrite_a, check_finite
    x = factors.matrices("lu", a)
    packed, _, order = lax_linalg.lu(x)
    m, n = x.shape[-2:]
    k, last = min(m, n), x.ndim - 1
    left = ops.pieces.slice_along(packed, last, 0, k)
    left = point.add(parts.triangle(left, lower=True, strict=True), parts.identity_like(left))
    right = parts.triangle(ops.pieces.slice_along(packed, last - 1, 0, k), lower=False)
    if permute_l:
        return _lu.take_rows(left, _lu.inverse_order(order)), right
    spread = parts.as_rows(order, m)
    rows, _ = parts.rows_and_columns(spread)
    p = ops.cast.convert_element_type(point.eq(spread, rows), parts.real_dtype(x.dtype))
    return p, left, right


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """(lu, pivots), for `lu_solve`.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.lu_factor(cnp.array([[2.0, 4.0], [1.0, 5.0]]))[0].tolist()
    [[2.0, 4.0], [0.5, 3.0]]
    """
    del overwrite_a, check_finite
    return lax_linalg.lu(factors.matrices("lu_factor", a))[:2]


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """`x` with op(a) x = b, from `lu_factor(a)`.

    trans: 0, 1 (transposed) or 2 (the conjugate transpose); ValueError else.

    >>> from covector import numpy as cnp, scipy
    >>> factors = scipy.linalg.lu_factor(cnp.array([[2.0]]))
    >>> scipy.linalg.lu_solve(factors, cnp.array([8.0])).tolist()
    [4.0]
    """
    del overwrite_b, check_finite
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    packed, pivots = lu_and_piv
    x, y = _pair("lu_solve", packed, b)
    order = lax_linalg.lu_pivots_to_permutation(convert.array_operand("lu_solve", pivots),
                                                x.shape[-1])  # fmt: skip

    def run(x: Any, y: Any) -> Any:
        here = convert.broadcast_to(order, x.shape[:-1])
        how: dict[str, Any] = {
            "left_side": True, "transpose_a": trans > 0, "conjugate_a": trans == 2
        }  # fmt: skip
        lower: dict[str, Any] = {"lower": True, "unit_diagonal": True}
        if trans == 0:
            y = lax_linalg.triangular_solve(x, _lu.take_rows(y, here), **how, **lower)
            return lax_linalg.triangular_solve(x, y, **how)
        y = lax_linalg.triangular_solve(x, y, **how)
        y = lax_linalg.triangular_solve(x, y, **how, **lower)
        return _lu.take_rows(y, _lu.inverse_order(here))

    return _with_sides("lu_solve", run, x, y)


def qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full",
    pivoting: bool = False, check_finite: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    """(q, r) with a = q r; (r,) in mode 'r'; with `pivoting` also the columns' order at the end.

    mode: 'full' (square q), 'economic' (min(m, n) columns) or 'r'; ValueError else.

    >>> from covector import numpy as cnp, scipy
    >>> abs(scipy.linalg.qr(cnp.array([[3.0], [4.0]]), mode="r")[0]).round(5).tolist()
    [[5.0], [0.0]]
    """
    del overwrite_a, lwork, check_finite
    if mode not in ("full", "r", "economic"):
        raise ValueError(
            f"Unsupported QR decomposition mode {mode!r}; wanted 'full', 'economic' or 'r'"
        )
    x = factors.matrices("qr", a)
    q, *rest = lax_linalg.qr(x, pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)


def qr_multiply(
    a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
    overwrite_a: bool = False, overwrite_c: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """(q c, r) in mode 'left', (c q, r) in mode 'right', where a = q r with min(m, n) columns of q.

    conjugate: q's conjugate is taken; pivoting: the columns' order is a third result.

    >>> from covector import numpy as cnp, scipy
    >>> abs(scipy.linalg.qr_multiply(cnp.array([[2.0]]), cnp.array([[3.0]]))[0]).tolist()
    [[3.0]]
    """
    del overwrite_a, overwrite_c
    if mode not in ("left", "right"):
        raise ValueError(f"Mode argument should be one of 'left' or 'right'; got {mode!r}")
    left, right = convert.promote_inexact(*convert.operands("qr_multiply", a, c))
    x, y = factors.matrices("qr_multiply", left), factors.inexact("qr_multiply", right)
    q, *rest = _qr.Qr(bool(pivoting), False)(x)
    q = parts.conj(q) if conjugate else q
    vector = y.ndim == 1
    y = ops.shape.expand_dims(y, (1 if mode == "left" else 0,)) if vector else y
    out = parts.matmul(q, y) if mode == "left" else parts.matmul(y, q)
    if vector:
        out = ops.shape.squeeze(out, (1 if mode == "left" else 0,))
    return (out, *rest)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
    check_finite: bool = True, lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """(u, s, vh) with a = u diag(s) vh, or s alone; see `covector.numpy.linalg.svd`.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.svd(cnp.array([[-3.0]]), compute_uv=False).tolist()
    [3.0]
    """
    del overwrite_a, check_finite, lapack_driver
    found = factors.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def eigh(
    a: Any, b: Any = None, lower: bool = True, eigvals_only: bool = False,
    overwrite_a: bool = False, overwrite_b: bool = False, turbo: bool = True, eigvals: None = None,
    type: int = 1, check_finite: bool = True,
) -> Any:  # fmt: skip
    """(w, v) with a v = v diag(w), or a v = b v diag(w), of Hermitian `a` and positive definite
    `b`; w alone if `eigvals_only`.  Only the `lower` or upper triangles are read.

    Raises NotImplementedError for `eigvals`, and for a `type` other than 1.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.eigh(cnp.array([[2.0]]), cnp.array([[4.0]]), eigvals_only=True).tolist()
    [0.5]
    """
    del overwrite_a, overwrite_b, turbo, check_finite
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if b is None:
        x, factor = factors.square("eigh", a), None
    else:
        x, y = _pair("eigh", a, b)
        y = factors.square("eigh", y)
        factor = _cholesky(y, lower)
        factor = factor if lower else parts.adjoint(factor)
        x = parts.hermitian(x, lower)
        x = lax_linalg.triangular_solve(factor, x, left_side=True, lower=True)
        x = lax_linalg.triangular_solve(factor, x, lower=True, transpose_a=True, conjugate_a=True)
    if eigvals_only:
        return eigen.Eigh(bool(lower), False)(x)[0]
    v, w = eigen.Eigh(bool(lower))(x)
    if factor is not None:
        v = lax_linalg.triangular_solve(
            factor, v, left_side=True, lower=True, transpose_a=True, conjugate_a=True
        )
    return w, v


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse of square matrices.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.inv(cnp.array([[2.0]])).tolist()
    [[0.5]]
    """
    del overwrite_a, check_finite
    return systems.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant of square matrices.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.det(cnp.array([[2.0]])).tolist()
    2.0
    """
    del overwrite_a, check_finite
    return systems.det(a)


def solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    debug: bool = False, check_finite: bool = True, assume_a: str = "gen",
) -> Any:  # fmt: skip
    """`x` with a x = b.

    assume_a: 'gen', 'sym', 'her', or 'pos': positive definite, of which only one triangle is read
    (the `lower` one, or the upper one); ValueError else.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.solve(cnp.array([[4.0]]), cnp.array([8.0]), assume_a="pos").tolist()
    [2.0]
    """
    del overwrite_a, overwrite_b, debug, check_finite
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(
            f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got {assume_a!r}"
        )
    if assume_a != "pos":
        return systems.solve(a, b)
    x, y = _pair("solve", a, b)
    return cho_solve((_cholesky(x, lower), lower), y)


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """(t, z) with a = z t zᴴ: z is unitary, t an upper triangle; of real matrices, unless output is
    'complex', with blocks of 2 x 2 for conjugate pairs of eigenvalues.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.schur(cnp.array([[1.0, 2.0], [0.0, 3.0]]))[0].tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    if output not in ("real", "complex"):
        raise ValueError(f"argument must be 'real' or 'complex'; got output={output!r}")
    x = factors.square("schur", a)
    x = convert.strong(x, parts.complex_dtype(x.dtype)) if output == "complex" else x
    t, z = forms.Schur(True)(x)
    return t, z


def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """h, or (h, q) with a = q h qᴴ: zeros below h's first subdiagonal, q unitary.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.hessenberg(cnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    del overwrite_a, check_finite
    x = factors.square("hessenberg", a)
    packed, taus = lax_linalg.hessenberg(x)
    n, last = x.shape[-1], x.ndim - 1
    rows, columns = parts.rows_and_columns(packed)
    kept = point.le(rows, point.add(columns, ops.families.like(columns, 1)))
    h = parts.where(kept, packed, 0)
    if not calc_q:
        return h
    if n < 2:
        return h, parts.identity_like(packed)
    cut = ops.pieces.slice_along(ops.pieces.slice_along(packed, last - 1, 1, n), last, 0, n - 1)
    inner = lax_linalg.householder_product(cut, taus)
    edges = [(0, 0, 0)] * (last - 1) + [(1, 0, 0)] * 2
    rows, columns = parts.rows_and_columns(packed)
    corner = point.and_(point.eq(rows, ops.families.like(rows, 0)), point.eq(rows, columns))
    return h, parts.where(corner, 1, ops.pieces.pad(inner, 0.0, edges))


def block_diag(*arrs: Any) -> Any:
    """The matrix with these on its diagonal, zeros elsewhere; a scalar is 1 x 1, a vector a row.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.block_diag(1, cnp.array([[2, 3]])).tolist()
    [[1, 0, 0], [0, 2, 3]]
    """
    given = convert.promote(*convert.operands("block_diag", *arrs)) if arrs else (np.zeros((1, 0)),)
    blocks = [convert.array_operand("block_diag", x) for x in given]
    wrong = [x.shape for x in blocks if x.ndim > 2]
    if wrong:
        raise ValueError(f"Arguments to block_diag must have at most 2 dimensions, got {wrong}")
    blocks = [ops.shape.reshape(x, (1,) * (2 - x.ndim) + x.shape) for x in blocks]
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(ops.pieces.pad(x, convert.number(x, 0), [(0, 0, 0), (before, after, 0)]))
        before += x.shape[1]
    return ops.pieces.concatenate(rows, 0)


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix whose first column is `c` and first row `r` (of which r[0] is not read; the
    conjugate of `c` if None), constant along diagonals.  Leading axes are a batch.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.toeplitz(cnp.array([1, 2]), cnp.array([1, 5, 6])).tolist()
    [[1, 5, 6], [2, 1, 5]]
    """
    if r is None:
        column = convert.array_operand("toeplitz", c)
        row = point.conj(column) if parts.is_complex(column) else column
    else:
        column, row = (
            convert.array_operand("toeplitz", x)
            for x in convert.promote(*convert.operands("toeplitz", c, r))
        )
    column, row = (ops.shape.reshape(x, (1,)) if not x.ndim else x for x in (column, row))
    batch = convert.broadcast_shapes("toeplitz", column.shape[:-1], row.shape[:-1])
    column, row = (convert.broadcast_to(x, (*batch, x.shape[-1])) for x in (column, row))
    last, m, n = len(batch), column.shape[-1], row.shape[-1]
    line = ops.pieces.concatenate(
        [ops.shape.rev(column, (last,)), ops.pieces.slice_along(row, last, 1, n)], last
    )
    index = np.arange(m)[::-1, None] + np.arange(n)[None, :]
    return line[..., index.astype(dtypes.default_int())]
