"""Functions of matrices: exponential, square root, polar factors, Sylvester's equation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from covector import ops
from covector.api.autodiff import jvp
from covector.api.custom_jvp import custom_jvp
from covector.api.vectorize import vmap
from covector.ir.values import typeof
from covector.lax import cond, fori_loop, scan
from covector.lax import linalg as lax_linalg
from covector.numpy import convert, factors
from covector.ops.linalg import forms, parts
from covector.ops.linalg import lu as _lu
from covector.ops.linalg.triangular import triangular_solve

point = ops.pointwise
like = ops.families.like
#: Numerators of the Padé approximant of degree 13, and the largest norm that it serves
#: (Higham 2005, The scaling and squaring method for the matrix exponential revisited).
PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
THETA = 5.371920351148152


def over_batch(fun: Callable[..., Any], ndim: int) -> Callable[..., Any]:
    """`fun` of single matrices, mapped over the axes before the last two."""
    for _ in range(ndim - 2):
        fun = vmap(fun)
    return fun


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The exponential of square matrices, by scaling, a Padé approximant and squaring.

    Results are NaN where more than `max_squarings` squarings would be needed.  upper_triangular:
    `A` is.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.expm(cnp.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x = factors.square("expm", A)
    if not x.size:
        return x
    one = functools.partial(_expm, upper_triangular=upper_triangular, squarings=max_squarings)
    return over_batch(one, x.ndim)(x)


def _expm(x: Any, upper_triangular: bool, squarings: int) -> Any:
    real = parts.real_dtype(x.dtype)
    sums = ops.reduce.reduce_sum(point.abs_(ops.select.stop_gradient(x)), (0,))
    norm = ops.reduce.reduce_max(sums, (0,))
    wanted = point.ceil(point.div(point.log(point.div(norm, like(norm, THETA))),
                                  like(norm, math.log(2))))  # fmt: skip
    count = point.max_(wanted, like(norm, 0))
    scale = point.exp2(point.neg(count))
    scaled = point.mul(x, parts.as_dtype_of(scale, x))
    u, v = _pade(scaled)
    numerator, denominator = point.add(v, u), point.sub(v, u)
    if upper_triangular:
        out = triangular_solve(denominator, numerator, left_side=True)
    else:
        out = _lu.solve(denominator, numerator)

    def step(y: Any, k: Any) -> Any:
        return cond(point.lt(k, count), lambda z: parts.matmul(z, z), lambda z: z, y), None

    out, _ = scan(step, out, np.arange(squarings).astype(real))
    bad = point.gt(count, like(count, squarings))
    return point.where(ops.shape.broadcast_in_dim(bad, x.shape, ()), parts.full_nan(typeof(x)), out)


def _pade(x: Any) -> tuple[Any, Any]:
    mm = parts.matmul
    one = parts.identity_like(x)
    x2 = mm(x, x)
    x4 = mm(x2, x2)
    x6 = mm(x4, x2)

    def mixed(*terms: tuple[float, Any]) -> Any:
        total = None
        for c, y in terms:
            term = point.mul(y, like(y, c))
            total = term if total is None else point.add(total, term)
        return total

    b = PADE
    odd = point.add(
        mm(x6, mixed((b[13], x6), (b[11], x4), (b[9], x2))),
        mixed((b[7], x6), (b[5], x4), (b[3], x2), (b[1], one)),
    )
    even = point.add(
        mm(x6, mixed((b[12], x6), (b[10], x4), (b[8], x2))),
        mixed((b[6], x6), (b[4], x4), (b[2], x2), (b[0], one)),
    )
    return mm(x, odd), even


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """(expm(A), its derivative in the direction `E`), or the derivative alone.

    `method` is accepted; the derivative is that of `expm`'s own steps.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.expm_frechet(cnp.zeros((1, 1)), cnp.ones((1, 1)))[1].tolist()
    [[1.0]]
    """
    del method
    x, direction = convert.promote_inexact(*convert.operands("expm_frechet", A, E))
    x, direction = factors.square("expm_frechet", x), factors.square("expm_frechet", direction)
    value, change = jvp(expm, (x,), (direction,))
    return (value, change) if compute_expm else change


def triangular_sylvester(r: Any, s: Any, c: Any) -> Any:
    """`y` with r y + y s = c, where r and s are upper triangles: a column after another."""
    m, n = typeof(c).shape
    one = parts.identity_like(r)
    numbers = ops.shape.iota(parts.INT32, (n,), 0)

    def column(j: Any, y: Any) -> Any:
        j = ops.cast.convert_element_type(j, parts.INT32)
        here = point.eq(numbers, ops.shape.broadcast_in_dim(j, (n,), ()))
        spread = ops.shape.broadcast_in_dim(here, (m, n), (1,))
        pick = lambda x: ops.reduce.reduce_sum(parts.where(  # noqa: E731
            ops.shape.broadcast_in_dim(here, typeof(x).shape, (1,)), x, 0), (1,))  # fmt: skip
        weights = pick(s)
        own = ops.reduce.reduce_sum(parts.where(here, weights, 0), (0,))
        before = ops.reduce.reduce_sum(point.mul(y, parts.as_rows(weights, m)), (1,))
        side = point.sub(pick(c), before)
        matrix = point.add(r, point.mul(one, own))
        found = triangular_solve(matrix, ops.shape.expand_dims(side, (1,)), left_side=True)
        return point.where(spread, ops.shape.broadcast_in_dim(found, (m, n), (0, 1)), y)

    return fori_loop(0, n, column, ops.shape.zeros(typeof(c)))


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Any:
    """`X` with A X + X B = C, by Schur's forms (Bartels and Stewart 1972).

    It is infinite or NaN where an eigenvalue of `A` is minus one of `B`.  `method`, `tol` are
    accepted.  Of real arguments the result is real.

    >>> from covector import numpy as cnp, scipy
    >>> one = cnp.ones((1, 1))
    >>> scipy.linalg.solve_sylvester(one, 2 * one, 6 * one).tolist()
    [[2.0]]
    """
    del method, tol
    given = convert.promote_inexact(*convert.operands("solve_sylvester", A, B, C))
    a, b = (factors.square("solve_sylvester", x) for x in given[:2])
    c = factors.matrices("solve_sylvester", given[2])
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(
            f"solve_sylvester: C must be {a.shape[-1]} x {b.shape[-1]}, as A and B say; "
            f"got {c.shape}"
        )
    return _sylvester(a, b, c)


@custom_jvp
def _sylvester(a: Any, b: Any, c: Any) -> Any:
    return over_batch(_sylvester_one, typeof(c).ndim)(a, b, c)


def _sylvester_one(a: Any, b: Any, c: Any) -> Any:
    """The matrices' Schur forms are constants here: `c` alone has a derivative."""
    mm, wide = parts.matmul, parts.complex_dtype(typeof(c).dtype)
    forms_ = [forms.Schur(True)(convert.strong(ops.select.stop_gradient(x), wide)) for x in (a, b)]
    (r, u), (s, v) = forms_
    inside = mm(mm(parts.adjoint(u), convert.strong(c, wide)), v)
    found = mm(mm(u, triangular_sylvester(r, s, inside)), parts.adjoint(v))
    return found if parts.is_complex(c) else point.real(found)


@_sylvester.defjvp
def _(primals: Any, tangents: Any) -> Any:
    """The solution for dc - da x - x db."""
    (a, b, c), (da, db, dc) = primals, tangents
    x = _sylvester(a, b, c)
    side = point.sub(point.sub(dc, parts.matmul(da, x)), parts.matmul(x, db))
    return x, _sylvester(a, b, side)


def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """The principal square root of square matrices, complex, by Schur's form
    (Björck and Hammarling 1983).  `blocksize` must be 1.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.sqrtm(cnp.array([[4.0, 0.0], [0.0, 9.0]])).real.tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    x = factors.square("sqrtm", A)
    return _sqrtm(convert.strong(x, parts.complex_dtype(x.dtype)))


@custom_jvp
def _sqrtm(x: Any) -> Any:
    return over_batch(_sqrtm_one, typeof(x).ndim)(x)


def _sqrtm_one(x: Any) -> Any:
    n = typeof(x).shape[0]
    t, z = lax_linalg.schur(x)
    roots = point.sqrt(parts.diagonal(t))
    rows, columns = parts.rows_and_columns(t)
    start = parts.where(point.eq(rows, columns), parts.as_rows(roots, n), 0)
    numbers = ops.shape.iota(parts.INT32, (n,), 0)

    def column(j: Any, r: Any) -> Any:
        j = ops.cast.convert_element_type(j, parts.INT32)
        here = ops.shape.broadcast_in_dim(j, (n, n), ())
        pick = lambda y: ops.reduce.reduce_sum(  # noqa: E731
            parts.where(point.eq(columns, here), y, 0), (1,)
        )
        line = ops.shape.broadcast_in_dim(j, (n,), ())
        own = ops.reduce.reduce_sum(parts.where(point.eq(numbers, line), roots, 0), (0,))
        inside = point.and_(point.lt(rows, here), point.lt(columns, here))
        one = parts.identity_like(t)
        matrix = point.where(inside, point.add(r, point.mul(one, own)), one)
        side = parts.where(point.lt(numbers, line), pick(t), 0)
        found = triangular_solve(matrix, ops.shape.expand_dims(side, (1,)), left_side=True)
        new = ops.shape.broadcast_in_dim(found, (n, n), (0, 1))
        return point.where(point.and_(point.eq(columns, here), point.lt(rows, here)), new, r)

    r = fori_loop(0, n, column, start)
    return parts.matmul(parts.matmul(z, r), parts.adjoint(z))


@_sqrtm.defjvp
def _(primals: Any, tangents: Any) -> Any:
    """The solution of y dy + dy y = dx."""
    (x,), (t,) = primals, tangents
    root = _sqrtm(x)
    return root, _sylvester(root, root, t)


def polar(
    a: Any, side: str = "right", *, method: str = "qdwh", eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """(u, p) with a = u p ('right') or a = p u ('left'): u has orthonormal columns (or rows), p is
    Hermitian and has no negative eigenvalue.  By singular values, whichever `method` is named.

    >>> from covector import numpy as cnp, scipy
    >>> scipy.linalg.polar(cnp.array([[-2.0]]))[1].tolist()
    [[2.0]]
    """
    del eps, max_iterations
    x = factors.matrices("polar", a)
    if side not in ("right", "left"):
        raise ValueError(f"The argument `side` must be either 'right' or 'left'; got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    if side == "left":
        u, p = _polar(parts.adjoint(x))
        return parts.adjoint(u), p
    return _polar(x)


@custom_jvp
def _polar(x: Any) -> Any:
    u, s, vh = lax_linalg.svd(x, full_matrices=False)
    return parts.matmul(u, vh), parts.matmul(parts.adjoint(vh), parts.scale_rows(s, vh))


@_polar.defjvp
def _(primals: Any, tangents: Any) -> Any:
    """du = u w + (I - u uᴴ) dx p⁻¹ with p w + w p = uᴴ dx - dxᴴ u; right for equal singular
    values too (Higham, Functions of Matrices, chapter 8)."""
    (x,), (t,) = primals, tangents
    mm, adjoint = parts.matmul, parts.adjoint
    u, p = _polar(x)
    inside = mm(adjoint(u), t)
    turn = _sylvester(p, p, point.sub(inside, adjoint(inside)))
    du = mm(u, turn)
    m, n = typeof(x).shape[-2:]
    if m > n:
        outside = point.sub(t, mm(u, inside))
        du = point.add(du, adjoint(_lu.solve(p, adjoint(outside))))
    dp = point.sub(inside, mm(turn, p))
    return (u, p), (du, parts.symmetrized(dp))
