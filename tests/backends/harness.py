"""Runs loop programs natively and by the interpreter, and compares every byte that was written.

Buffers lie between guard zones, at addresses aligned to their element only; outputs begin as NaN
(or a value that shows), so what is never written is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.link import call, link
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.interpret import interpret
from covector.compiler.loops.program import Buffer, Kernel
from covector.compiler.math.evaluate import numpy_dtype
from covector.ir.index import Affine, affine
from covector.ir.scalar import Expr, load

GUARD = 64


def guarded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a copy of `array` between guard zones, the memory around it)."""
    size = array.dtype.itemsize
    room = np.full(array.nbytes + 2 * GUARD + 64 + size, 0xA5, np.uint8)
    # One element off any vector's alignment.
    start = GUARD + (-(room.ctypes.data + GUARD) % 64) + size % 64
    inside = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, room


def blank(shape: Sequence[int], dtype: str) -> np.ndarray:
    """An output that was not written yet."""
    out = np.ones(tuple(shape), numpy_dtype(dtype))
    if out.dtype.kind in "fcV":
        out[...] = np.nan
    return out


_latest: list = []  # (kernel, target, code): a kernel that is run again is not compiled again


def machine_code(kernel: Kernel, target: Target | None = None):
    target = target or host()
    for known, machine, code in _latest:
        if known is kernel and machine.fingerprint == target.fingerprint:
            return code
    text, declared = emit(kernel, target)
    code = link([assemble(module_text(target, [text], declared), target)], [kernel.name])
    _latest.append((kernel, target, code))
    del _latest[:-4]
    return code


def run(
    kernel: Kernel, arrays: Sequence[np.ndarray], symbols: Sequence[int] = (), target=None
) -> list[np.ndarray]:
    """What the buffers hold after the machine code ran; the guard zones are checked."""
    code = machine_code(kernel, target)
    pairs = [guarded(a) for a in arrays]
    before = [room.copy() for _, room in pairs]
    call(code.address(kernel.name), [a.ctypes.data for a, _ in pairs], symbols)
    for (inside, room), old, b in zip(pairs, before, passed(kernel), strict=True):
        start = inside.ctypes.data - room.ctypes.data
        same = room == old
        if b.home != "in":
            same[start : start + inside.nbytes] = True
        assert same.all(), f"{kernel}\nwrote outside {b.name}, or to an input"
    return [inside for inside, _ in pairs]


def passed(kernel: Kernel) -> list[Buffer]:
    return [b for b in kernel.buffers.values() if b.home != "scratch"]


def check(
    kernel: Kernel,
    arrays: Sequence[np.ndarray],
    symbols: Sequence[int] = (),
    *,
    rtol: float = 0.0,
    target: Target | None = None,
    lanes: bool = False,
) -> list[np.ndarray]:
    """Native code and interpreter agree on every buffer; gives what they hold.

    `lanes`: the interpreter does vector loops at once, which is much faster.
    """
    want = [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        interpret(kernel, want, symbols, lanes=lanes)
    got = run(kernel, arrays, symbols, target)
    for b, w, g in zip(passed(kernel), want, got, strict=True):
        with np.errstate(all="ignore"):
            assert_same(g, w, rtol, f"{kernel}\nbuffer {b.name}, symbols {symbols}")
    return got


def assert_same(got: np.ndarray, want: np.ndarray, rtol: float, what: str) -> None:
    assert got.dtype == want.dtype
    if rtol == 0.0:
        if got.dtype.kind in "fcV":
            wide = np.complex128 if got.dtype.kind == "c" else np.float64
            g, w = got.astype(wide), want.astype(wide)
            same = (g == w) | (np.isnan(g) & np.isnan(w))
        else:
            same = got == want
        bad = np.argwhere(~np.asarray(same))
        assert not len(bad), (
            f"{what}: first at {bad[0]}: {got[tuple(bad[0])]} for {want[tuple(bad[0])]}"
        )
        return
    kind = np.complex128 if got.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(kind), want.astype(kind), rtol=rtol, atol=rtol, err_msg=what
    )


def buffers(*items: Buffer) -> dict[str, Buffer]:
    return {b.name: b for b in items}


def buffer(name: str, shape: Sequence[object], dtype: str, home: str, strides=None) -> Buffer:
    if strides is not None:
        strides = tuple(map(affine, strides))
    return Buffer(name, tuple(map(affine, shape)), dtype, home, strides)


def at(name: str, *index: object, dtype: str = "float32") -> Expr:
    return load(name, tuple(map(affine, index)), dtype)


def i(name: str) -> Affine:
    return affine(name)


def values(shape: Sequence[int], dtype: str, seed: int = 0) -> np.ndarray:
    """Interesting values: everything small, the ends of the range, zeros, infinities, NaN."""
    rng = np.random.default_rng(seed)
    d, shape = numpy_dtype(dtype), tuple(shape)
    if d.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if d.kind in "iu":
        info = np.iinfo(d)
        ends = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7]
        ends += [-1, -2, -3] if d.kind == "i" else []
        wide = rng.integers(info.min, info.max, shape, d, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, rng.choice(np.array(ends, d), shape))
    if d.kind == "c":
        part = "float32" if d.itemsize == 8 else "float64"
        out = np.empty(shape, d)
        out.real, out.imag = values(shape, part, seed), values(shape, part, seed + 1)
        return out
    ends = np.array(
        [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            np.inf,
            -np.inf,
            np.nan,
            1e-40,
            3e38,
            -3e38,
            65504.0,
            1e-7,
            2**31,
            -(2**31),
            2**63,
            300.0,
        ]
    )
    with np.errstate(over="ignore"):
        usual = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(d)
        return np.where(rng.random(shape) < 0.6, usual, rng.choice(ends, shape).astype(d))
