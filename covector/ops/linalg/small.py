"""Factors and systems of one small matrix, in scalar expressions: what `per_matrix` rules say.

A matrix is a tuple of rows.  There are no branches: rows are swapped by selection, so that a vector
may hold the same element of many matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from covector.ir.scalar import Expr, compare, const, expr, select

Vector = tuple[Expr, ...]
Matrix = tuple[Vector, ...]


def transposed(a: Sequence[Sequence[Expr]]) -> Matrix:
    """Rows as columns."""
    return tuple(zip(*a, strict=True))


def conjugated(a: Matrix) -> Matrix:
    """The conjugate of every element, of complex ones."""
    return tuple(tuple(map(conj, row)) for row in a)


def conj(x: Expr) -> Expr:
    """The conjugate, of a complex number."""
    return expr("conj", x.dtype, x) if x.dtype in _PARTS else x


#: The dtype of the parts of each complex one.
_PARTS: Final = {"complex64": "float32", "complex128": "float64"}


def _parts(x: Expr) -> tuple[Expr, Expr]:
    part = _PARTS[x.dtype]
    return expr("real", part, x), expr("imag", part, x)


def _complex(real: Expr, imag: Expr, dtype: str) -> Expr:
    return expr("complex", dtype, real, imag)


def _number(x: float, dtype: str) -> Expr:
    return const(complex(x, x if x != x else 0) if dtype in _PARTS else x, dtype)


def _divide(x: Expr, y: Expr) -> Expr:
    return expr("div", x.dtype, x, y)


def _over_real(x: Expr, y: Expr) -> Expr:
    if x.dtype not in _PARTS:
        return _divide(x, y)
    real, imag = _parts(x)
    return _complex(_divide(real, y), _divide(imag, y), x.dtype)


def _size(x: Expr) -> Expr:
    """By which LAPACK compares elements: of complex ones the sum of the parts' sizes."""
    if x.dtype not in _PARTS:
        return expr("abs", x.dtype, x)
    real, imag = _parts(x)
    return expr("abs", real.dtype, real) + expr("abs", imag.dtype, imag)


# LU


@final
class Elimination:
    """Gauss's elimination with partial pivoting, as LAPACK's getrf does it: in every column the
    first of the largest elements is the pivot.

    swaps[j]: for each row below j whether it changes places with row j.  multiples[j]: what of row
    j is then taken from each row below it.  upper: the rows of U.
    """

    __slots__ = ("columns", "multiples", "rows", "swaps", "upper")

    def __init__(self, a: Matrix) -> None:
        self.rows, self.columns = len(a), len(a[0])
        left = [list(row) for row in a]
        self.swaps: list[list[Expr]] = []
        self.multiples: list[list[Expr]] = []
        for j in range(min(self.rows, self.columns)):
            swaps = _largest([row[j] for row in left[j:]])
            for c in range(j, self.columns):
                column = _exchanged([row[c] for row in left[j:]], swaps)
                for row, x in zip(left[j:], column, strict=True):
                    row[c] = x
            pivot = left[j]
            # Nothing is left to take where the whole column is zero.
            none = compare("eq", pivot[j], _number(0.0, pivot[j].dtype))
            divisor = select(none, _number(1.0, pivot[j].dtype), pivot[j])
            multiples = [_divide(row[j], divisor) for row in left[j + 1 :]]
            for row, factor in zip(left[j + 1 :], multiples, strict=True):
                row[j + 1 :] = [
                    x - factor * p for x, p in zip(row[j + 1 :], pivot[j + 1 :], strict=True)
                ]
            self.swaps.append(swaps)
            self.multiples.append(multiples)
        self.upper: Matrix = tuple(map(tuple, left[: len(self.swaps)]))

    def factors(self) -> Matrix:
        """U on and above the diagonal, L below it, as getrf packs them."""
        columns: list[list[Expr]] = []
        for j, below in enumerate(self.multiples):
            for t in range(j + 1, len(self.swaps)):  # later swaps move L's rows too
                at = t - j - 1
                below = [*below[:at], *_exchanged(below[at:], self.swaps[t])]
            columns.append([*(row[j] for row in self.upper[: j + 1]), *below])
        columns += [[row[c] for row in self.upper] for c in range(len(columns), self.columns)]
        return transposed(columns)

    def pivots(self) -> Vector:
        """The row that each row was swapped with."""
        out: list[Expr] = []
        for j, swaps in enumerate(self.swaps):
            place = const(j, "int32")
            for k, swap in enumerate(swaps, j + 1):
                place = select(swap, const(k, "int32"), place)
            out.append(place)
        return tuple(out)

    def order(self) -> Vector:
        """The permutation of rows that the swaps make."""
        return tuple(self.moved([const(i, "int32") for i in range(self.rows)]))

    def moved(self, column: Sequence[Expr]) -> list[Expr]:
        """A column with its elements swapped as the rows were."""
        out = list(column)
        for j, swaps in enumerate(self.swaps):
            out[j:] = _exchanged(out[j:], swaps)
        return out

    def solved(self, column: Sequence[Expr]) -> Vector:
        """`x` with a x = column, of a square matrix."""
        x = list(column)
        for j, (swaps, multiples) in enumerate(zip(self.swaps, self.multiples, strict=True)):
            x[j:] = _exchanged(x[j:], swaps)
            x[j + 1 :] = [y - f * x[j] for y, f in zip(x[j + 1 :], multiples, strict=True)]
        return substituted(self.upper, x, lower=False, unit=False)

    def solved_transposed(self, column: Sequence[Expr]) -> Vector:
        """`x` with aᵀ x = column, of a square matrix."""
        x = list(substituted(transposed(self.upper), column, lower=True, unit=False))
        for j in range(len(self.swaps) - 1, -1, -1):
            for y, f in zip(x[j + 1 :], self.multiples[j], strict=True):
                x[j] = x[j] - f * y
            x[j:] = _exchanged(x[j:], self.swaps[j])
        return tuple(x)


def _largest(column: Sequence[Expr]) -> list[Expr]:
    """For every element but the first, whether it is the first of the largest ones."""
    best = _size(column[0])
    larger: list[Expr] = []
    for x in column[1:]:
        size = _size(x)
        larger.append(compare("gt", size, best))
        best = select(larger[-1], size, best)
    out: list[Expr] = []
    later: Expr | None = None
    for found in reversed(larger):
        out.append(found if later is None else found & ~later)
        later = found if later is None else found | later
    return out[::-1]


def _exchanged(column: Sequence[Expr], swaps: Sequence[Expr]) -> list[Expr]:
    """The column with its first element and the one that is marked in each other's places."""
    first, rest = column[0], column[1:]
    chosen = first
    for swap, x in zip(swaps, rest, strict=True):
        chosen = select(swap, x, chosen)
    return [chosen, *(select(swap, first, x) for swap, x in zip(swaps, rest, strict=True))]


def reordered(column: Sequence[Expr], order: Sequence[Expr]) -> list[Expr]:
    """Element order[i] as element i."""
    return [_element(column, place) for place in order]


def restored(column: Sequence[Expr], order: Sequence[Expr]) -> list[Expr]:
    """Element i as element order[i]."""
    out: list[Expr] = []
    for i in range(len(column)):
        found = column[0]
        for x, place in zip(column[1:], order[1:], strict=True):
            found = select(compare("eq", place, const(i, place.dtype)), x, found)
        out.append(found)
    return out


def _element(column: Sequence[Expr], place: Expr) -> Expr:
    found = column[0]
    for k, x in enumerate(column[1:], 1):
        found = select(compare("eq", place, const(k, place.dtype)), x, found)
    return found


# Triangles


def substituted(a: Matrix, column: Sequence[Expr], lower: bool, unit: bool) -> Vector:
    """`x` with a x = column, where `a` is the lower (or upper) triangle of a matrix; `unit`: its
    diagonal is ones."""
    left, n = list(column), len(a)
    steps = range(n) if lower else range(n - 1, -1, -1)
    for j in steps:
        if not unit:
            left[j] = _divide(left[j], a[j][j])
        for i in range(j + 1, n) if lower else range(j):
            left[i] = left[i] - a[i][j] * left[j]
    return tuple(left)


def cholesky(a: Matrix) -> Matrix:
    """The lower factor of a Hermitian positive definite matrix; NaN where it is not."""
    n, dtype = len(a), a[0][0].dtype
    whole = dtype in _PARTS
    low: list[list[Expr]] = []
    roots: list[Expr] = []
    definite: Expr | None = None
    for i in range(n):
        row: list[Expr] = []
        for j in range(i):
            x = a[i][j]
            for left, right in zip(row, low[j], strict=False):
                x = x - left * conj(right)
            row.append(_over_real(x, roots[j]))
        x = _parts(a[i][i])[0] if whole else a[i][i]
        for left in row:
            for part in _parts(left) if whole else (left,):
                x = x - part * part
        positive = compare("gt", x, const(0.0, x.dtype))
        definite = positive if definite is None else definite & positive
        roots.append(expr("sqrt", x.dtype, x))
        row.append(_complex(roots[-1], const(0.0, x.dtype), dtype) if whole else roots[-1])
        low.append(row)
    assert definite is not None
    nan, zero = _number(float("nan"), dtype), _number(0.0, dtype)
    return tuple(
        tuple(select(definite, x, nan) for x in row) + (zero,) * (n - len(row)) for row in low
    )
