"""Singular values, eigenvalues and condensed forms, by LAPACK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covector.backends.cpu.emit.types import I64, PTR
from covector.backends.cpu.library.matrices import Desk

if TYPE_CHECKING:
    from collections.abc import Callable

    from covector.backends.cpu.emit.ssa import Value
    from covector.backends.cpu.library.site import Site


def _guarded(
    d: Desk, a: Value, nbytes: int, pieces: list[tuple[Value, int]], run: Callable[[], Value]
) -> None:
    """Runs LAPACK's routine; NaN in all pieces if an element isn't finite, or if it fails."""

    def fill() -> None:
        for pointer, size in pieces:
            d.fill_nan(pointer, size)

    d.when(d.finite(a, nbytes), lambda: d.check(run(), pieces), fill)


def svd(site: Site) -> None:
    """gesdd."""
    full, vectors = site.attributes
    (x,), (s, *out) = site.inputs, site.outputs
    m, n = x.shape[-2:]
    k = min(m, n)
    d = Desk(site, x, x.shape[:-2])
    made = d.by_columns(x.pointer, m, n)
    left, right = (m, n) if full else (k, k)
    sizes = [m * left * d.itemsize, right * n * d.itemsize] if vectors else []
    rooms = [d.room(size) for size in sizes]
    job = ("A" if full else "S") if vectors else "N"
    values = d.part(s)
    dummy = d.single(d.itemsize)

    def one(a: Value, w: Value, *uv: Value) -> None:
        u, vh = uv or (dummy, dummy)
        pieces = [(w, values.nbytes), *zip(uv, sizes, strict=True)]
        rows = right if vectors else 1
        _guarded(
            d, a, made.nbytes, pieces, lambda: d.call("gesdd", job, m, n, a, m, w, u, m, vh, rows)
        )

    d.each([made, values, *rooms], one)
    if vectors:
        d.by_rows(out[0].pointer, rooms[0].pointer, m, left)
        d.by_rows(out[1].pointer, rooms[1].pointer, right, n)
    d.close()


def eigh(site: Site) -> None:
    """syevd, or heevd of complex matrices; vectors overwrite the matrix."""
    lower, vectors = site.attributes
    (x,), out = site.inputs, site.outputs
    n = x.shape[-1]
    d = Desk(site, x, x.shape[:-2])
    made, values = d.by_columns(x.pointer, n, n), d.part(out[-1])
    name = "heevd" if d.complex else "syevd"
    job, uplo = "V" if vectors else "N", "L" if lower else "U"

    def one(a: Value, w: Value) -> None:
        pieces = [(a, made.nbytes), (w, values.nbytes)]
        _guarded(d, a, made.nbytes, pieces, lambda: d.call(name, job, uplo, n, a, n, w))

    d.each([made, values], one)
    if vectors:
        d.by_rows(out[0].pointer, made.pointer, n, n)
    d.close()


def eig(site: Site) -> None:
    """geev.  Of real matrices it gives values in parts, and of a pair of conjugate vectors their
    real and imaginary parts as two columns."""
    left, right = site.attributes
    (x,), (w, *vectors) = site.inputs, site.outputs
    n = x.shape[-1]
    d = Desk(site, x, x.shape[:-2])
    made, values = d.by_columns(x.pointer, n, n), d.part(w)
    square = n * n * d.itemsize
    rooms = [d.room(square) for _ in vectors]
    dummy = d.single(d.itemsize)
    jobs = ["V" if left else "N", "V" if right else "N"]
    halves = [] if d.complex else [d.single(n * d.itemsize), d.single(n * d.itemsize)]
    outs = [d.part(v) for v in vectors]

    def one(a: Value, total: Value, *rest: Value) -> None:
        scratch, given = rest[: len(rooms)], rest[len(rooms) :]
        places = iter(scratch)
        vl, vr = (next(places) if asked else dummy for asked in (left, right))
        pieces = [
            (total, values.nbytes),
            *((v, o.nbytes) for v, o in zip(given, outs, strict=True)),
        ]

        def fill() -> None:
            for pointer, size in pieces:
                d.fill_nan(pointer, size)

        def run() -> None:
            first = [total] if d.complex else halves
            info = d.call("geev", *jobs, n, a, n, *first, vl, n, vr, n)
            if not d.complex:
                _interleave(d, total, halves, n)
                for v, packed in zip(given, scratch, strict=True):
                    _unpack(d, v, packed, halves[1], n)
            elif given:
                for v, made_ in zip(given, scratch, strict=True):
                    _turn_one(d, v, made_, n)
            d.check(info, pieces)

        d.when(d.finite(a, made.nbytes), run, fill)

    d.each([made, values, *rooms, *outs], one)
    d.close()


def _interleave(d: Desk, total: Value, halves: list[Value], n: int) -> None:
    def put(i: Value) -> None:
        for h, half in enumerate(halves):
            place = d.b.add(d.b.mul(i, d.b.int(2)), d.b.int(h))
            d.store(total, place, d.load(half, i, d.real))

    d.loop(0, n, put)


def _unpack(d: Desk, out: Value, packed: Value, imaginary: Value, n: int) -> None:
    """Complex vectors by rows: a value with positive imaginary part is the first of a pair, whose
    columns j and j + 1 are the parts of vector j; the next vector is its conjugate."""
    b, zero = d.b, d.b.const(0.0, d.real)

    def column(j: Value) -> None:
        part = d.load(imaginary, j, d.real)
        first, second = b.cmp("fcmp ogt", part, zero), b.cmp("fcmp olt", part, zero)
        paired = b.bin("or", first, second)
        base = b.select(second, b.sub(j, b.int(1)), j)
        other = b.select(paired, b.add(base, b.int(1)), base)

        def element(i: Value) -> None:
            re = d.load(packed, b.add(b.mul(base, b.int(n)), i), d.real)
            im = d.load(packed, b.add(b.mul(other, b.int(n)), i), d.real)
            im = b.select(first, im, b.select(second, b.put("unary", d.real, (im,), "fneg"), zero))
            place = b.mul(b.add(b.mul(i, b.int(n)), j), b.int(2))
            d.store(out, place, re)
            d.store(out, b.add(place, b.int(1)), im)

        d.loop(0, n, element)

    d.loop(0, n, column)


def _turn_one(d: Desk, out: Value, source: Value, n: int) -> None:
    """One complex matrix by columns, by rows."""
    b = d.b

    def row(i: Value) -> None:
        def column(j: Value) -> None:
            for part in (0, 1):
                at = b.add(b.mul(b.add(b.mul(j, b.int(n)), i), b.int(2)), b.int(part))
                to = b.add(b.mul(b.add(b.mul(i, b.int(n)), j), b.int(2)), b.int(part))
                d.store(out, to, d.load(source, at, d.real))

        d.loop(0, n, column)

    d.loop(0, n, row)


def schur(site: Site) -> None:
    """gees, unsorted."""
    (vectors,) = site.attributes
    (x,), out = site.inputs, site.outputs
    n = x.shape[-1]
    d = Desk(site, x, x.shape[:-2])
    made = d.by_columns(x.pointer, n, n)
    rooms = [d.room(made.nbytes)] if vectors else []
    values = [d.single(n * d.itemsize) for _ in range(1 if d.complex else 2)]
    count, dummy = d.b.local(I64, 1), d.single(d.itemsize)
    none = d.b.put("cast", PTR, (d.b.int(0),), "inttoptr")

    def one(a: Value, *z: Value) -> None:
        pieces = [(p, made.nbytes) for p in (a, *z)]
        basis = z[0] if z else dummy
        job = "V" if vectors else "N"
        args = (job, "N", none, n, a, n, count, *values, basis, n)
        _guarded(d, a, made.nbytes, pieces, lambda: d.call("gees", *args))

    d.each([made, *rooms], one)
    for operand, part in zip(out, [made, *rooms], strict=True):
        d.by_rows(operand.pointer, part.pointer, n, n)
    d.close()


def hessenberg(site: Site) -> None:
    """gehrd of the whole matrix."""
    (x,), (out, taus) = site.inputs, site.outputs
    n = x.shape[-1]
    d = Desk(site, x, x.shape[:-2])
    made, scalars = d.by_columns(x.pointer, n, n), d.part(taus)

    def one(a: Value, tau: Value) -> None:
        d.check(d.call("gehrd", n, 1, n, a, n, tau), [(a, made.nbytes), (tau, scalars.nbytes)])

    d.each([made, scalars], one)
    d.by_rows(out.pointer, made.pointer, n, n)
    d.close()


def tridiagonal(site: Site) -> None:
    """sytrd, or hetrd of complex matrices."""
    (lower,) = site.attributes
    (x,), (out, *vectors) = site.inputs, site.outputs
    n = x.shape[-1]
    d = Desk(site, x, x.shape[:-2])
    made = d.by_columns(x.pointer, n, n)
    rest = [d.part(v) for v in vectors]
    name = "hetrd" if d.complex else "sytrd"

    def one(a: Value, *found: Value) -> None:
        sizes = [p.nbytes for p in rest]
        pieces = [(a, made.nbytes), *zip(found, sizes, strict=True)]
        d.check(d.call(name, "L" if lower else "U", n, a, n, *found), pieces)

    d.each([made, *rest], one)
    d.by_rows(out.pointer, made.pointer, n, n)
    d.close()
