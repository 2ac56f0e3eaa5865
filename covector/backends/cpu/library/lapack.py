"""Factors of matrices and triangular systems, by LAPACK and BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covector.backends.cpu.emit.types import I1, I8, I32, I64, PTR
from covector.backends.cpu.library import small_lu
from covector.backends.cpu.library.matrices import Desk

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.site import Site

#: CBLAS's words.
_ROWS, _LEFT, _RIGHT, _UPPER, _LOWER = 101, 141, 142, 121, 122
_PLAIN, _TRANSPOSED, _ADJOINT, _NON_UNIT, _UNIT = 111, 112, 113, 131, 132


def cholesky(site: Site) -> None:
    """potrf.  A lower triangle by rows is, conjugated, an upper one by columns: none is turned."""
    (x,), (out,) = site.inputs, site.outputs
    n = x.shape[-1]
    d = Desk(site, x, x.shape[:-2])
    whole = d.part(out)
    d.copy(out.pointer, x.pointer, whole.nbytes * d.batch)
    size = d.itemsize

    def one(a: Value) -> None:
        # Rows hold the transpose aᵀ = conj(a) by columns: its upper factor U, a = Uᵀ conj(U), is
        # by rows the lower Uᵀ.
        info = d.call("potrf_work", "U", n, a, n)
        d.check(info, [(a, whole.nbytes)])

        def clear(i: Value) -> None:
            start = d.b.mul(d.b.add(d.b.mul(i, d.b.int(n + 1)), d.b.int(1)), d.b.int(size))
            nbytes = d.b.mul(d.b.sub(d.b.int(n - 1), i), d.b.int(size))
            args = (d.after(a, start), d.b.const(0, I8), nbytes, d.b.const(False, I1))
            d.b.effect("effect", PTR, args, "llvm.memset.p0.i64")

        d.loop(0, n - 1, clear)

    d.each([whole], one)


def triangular_solve(site: Site) -> None:
    """trsm, or trsv of one right side; BLAS reads rows."""
    left, lower, transpose, conjugate, unit = site.attributes
    (a, b), (out,) = site.inputs, site.outputs
    n, (rows, columns) = a.shape[-1], b.shape[-2:]
    d = Desk(site, a, a.shape[:-2])
    side, whole = d.part(a), d.part(out)
    d.copy(out.pointer, b.pointer, whole.nbytes * d.batch)
    flip = (_ADJOINT if conjugate else _TRANSPOSED) if transpose else _PLAIN
    words = [_LOWER if lower else _UPPER, flip, _UNIT if unit else _NON_UNIT]
    name = f"scipy_cblas_{d.letter}"

    def one(matrix: Value, x: Value) -> None:
        if left and columns == 1:
            routine, args = "trsv", [_ROWS, *words, n, matrix, n, x, 1]
        else:
            routine = "trsm"
            args = [_ROWS, _LEFT if left else _RIGHT, *words, rows, columns, one_, matrix, n, x,
                    columns]  # fmt: skip
        site.host.imports(name + routine)
        d.b.effect("effect", I32, tuple(map(d.argument, args)), name + routine)

    number = d.b.const(1.0, d.real)
    one_ = number
    if d.complex:  # by address
        one_ = d.b.local(d.real, 2)
        d.store(one_, 0, number)
        d.store(one_, 1, d.b.const(0.0, d.real))
    d.each([side, whole], one)


def lu(site: Site) -> None:
    """getrf, which counts pivots from 1; small matrices have a function of their own."""
    (x,), (out, pivots, order) = site.inputs, site.outputs
    m, n = x.shape[-2:]
    k = min(m, n)
    d = Desk(site, x, x.shape[:-2])
    if small_lu.serves(d, m, n):
        small_lu.factor(site, d)
        return
    made = d.by_columns(x.pointer, m, n)

    def one(a: Value, swaps: Value, rows: Value) -> None:
        d.call("getrf_work", m, n, a, max(m, 1), swaps)
        one_ = d.b.const(1, I32)
        d.loop(0, k, lambda i: d.store(swaps, i, d.b.sub(d.load(swaps, i, I32), one_)))
        _swap_all(d, swaps, k, rows, m)

    d.each([made, d.part(pivots), d.part(order)], one)
    d.by_rows(out.pointer, made.pointer, m, n)
    d.close()


def _swap_all(d: Desk, swaps: Value, count: int, rows: Value, size: int) -> None:
    d.loop(0, size, lambda i: d.store(rows, i, d.b.cast("trunc", i, I32)))

    def swap(i: Value) -> None:
        j = d.b.cast("sext", d.load(swaps, i, I32), I64)
        first, second = d.load(rows, i, I32), d.load(rows, j, I32)
        d.store(rows, i, second)
        d.store(rows, j, first)

    d.loop(0, count, swap)


def permutation(site: Site) -> None:
    """The order that swaps of rows make; a pivot that is no row changes nothing."""
    (pivots,), (order,) = site.inputs, site.outputs
    count, size = pivots.shape[-1], order.shape[-1]
    if 0 in order.shape:
        return
    b = site.host.b
    batch = 1
    for n in order.shape[:-1]:
        batch *= n

    def each(e: Value, carried: list[Value]) -> list[Value]:
        swaps = b.put("gep", PTR, (pivots.pointer, b.mul(e, b.int(count))), I32)
        rows = b.put("gep", PTR, (order.pointer, b.mul(e, b.int(size))), I32)
        place = lambda p, i: b.put("gep", PTR, (p, i), I32)  # noqa: E731
        read = lambda p, i: b.put("load", I32, (place(p, i),), 4, len(b.scopes) - 1, keep=False)  # noqa: E731

        def number(i: Value, carried: list[Value]) -> list[Value]:
            b.effect("store", I32, (b.cast("trunc", i, I32), place(rows, i)), 4)
            return carried

        def swap(i: Value, carried: list[Value]) -> list[Value]:
            j = b.cast("sext", read(swaps, i), I64)
            inside = b.cmp("icmp ult", j, b.int(size))
            j = b.select(inside, j, i)
            first, second = read(rows, i), read(rows, j)
            b.effect("store", I32, (second, place(rows, i)), 4)
            b.effect("store", I32, (first, place(rows, j)), 4)
            return carried

        b.loop(b.int(0), b.int(size), 1, [], number)
        b.loop(b.int(0), b.int(count), 1, [], swap)
        return carried

    b.loop(b.int(0), b.int(batch), 1, [], each)


def geqrf(site: Site) -> None:
    """geqrf, or geqp3, with pivoting."""
    (pivoting,) = site.attributes
    (x,) = site.inputs
    out, *columns, taus = site.outputs
    m, n = x.shape[-2:]
    d = Desk(site, x, x.shape[:-2])
    made = d.by_columns(x.pointer, m, n)

    def plain(a: Value, tau: Value) -> None:
        info = d.call("geqrf", m, n, a, m, tau)
        d.check(info, [(a, made.nbytes), (tau, d.part(taus).nbytes)])

    def pivoted(a: Value, tau: Value, order: Value) -> None:
        d.loop(0, n, lambda i: d.store(order, i, d.b.const(0, I32)))
        info = d.call("geqp3", m, n, a, m, order, tau)
        d.check(info, [(a, made.nbytes), (tau, d.part(taus).nbytes)])
        one_ = d.b.const(1, I32)
        d.loop(0, n, lambda i: d.store(order, i, d.b.sub(d.load(order, i, I32), one_)))

    parts = [made, d.part(taus), *map(d.part, columns)]
    d.each(parts, pivoted if pivoting else plain)
    d.by_rows(out.pointer, made.pointer, m, n)
    d.close()


def orgqr(site: Site) -> None:
    """orgqr, or ungqr of complex matrices."""
    (x, taus), (out,) = site.inputs, site.outputs
    (m, n), k = x.shape[-2:], taus.shape[-1]
    d = Desk(site, x, x.shape[:-2])
    made = d.by_columns(x.pointer, m, n)

    def one(a: Value, tau: Value) -> None:
        info = d.call("ungqr" if d.complex else "orgqr", m, n, k, a, m, tau)
        d.check(info, [(a, made.nbytes)])

    d.each([made, d.part(taus)], one)
    d.by_rows(out.pointer, made.pointer, m, n)
    d.close()


def ormqr(site: Site) -> None:
    """ormqr, or unmqr of complex matrices."""
    left, transpose = site.attributes
    (x, taus, c), (out,) = site.inputs, site.outputs
    (m, n), k, (rows, columns) = x.shape[-2:], taus.shape[-1], c.shape[-2:]
    d = Desk(site, x, x.shape[:-2])
    packed, made = d.by_columns(x.pointer, m, n), d.by_columns(c.pointer, rows, columns)
    flip = ("C" if d.complex else "T") if transpose else "N"

    def one(a: Value, tau: Value, y: Value) -> None:
        name = "unmqr" if d.complex else "ormqr"
        info = d.call(name, "L" if left else "R", flip, rows, columns, k, a, m, tau, y, rows)
        d.check(info, [(y, made.nbytes)])

    d.each([packed, d.part(taus), made], one)
    d.by_rows(out.pointer, made.pointer, rows, columns)
    d.close()


def tridiagonal_solve(site: Site) -> None:
    """gtsv, which overwrites its diagonals."""
    (low, middle, high, b), (out,) = site.inputs, site.outputs
    n, columns = b.shape[-2:]
    d = Desk(site, b, b.shape[:-2])
    made = d.by_columns(b.pointer, n, columns)
    line = n * d.itemsize
    scratch = [d.single(line) for _ in range(3)]

    def one(dl: Value, dd: Value, du: Value, x: Value) -> None:
        d.copy(scratch[0], d.after(dl, d.itemsize), line - d.itemsize)
        d.copy(scratch[1], dd, line)
        d.copy(scratch[2], du, line - d.itemsize)
        d.check(d.call("gtsv", n, columns, *scratch, x, n), [(x, made.nbytes)])

    d.each([*map(d.part, (low, middle, high)), made], one)
    d.by_rows(out.pointer, made.pointer, n, columns)
    d.close()
