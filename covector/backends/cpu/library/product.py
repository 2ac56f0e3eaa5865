"""The function through which compiled code calls a product of BLAS: it shares the work out.

BLAS itself runs on one thread.  A product is cut along its rows or columns, a batch between its
products, and the workers that run kernels take the parts; so there is one pool of threads, nothing
waits for a thread that the system has put aside, and products may be computed on workers too.
The parts are the same however many threads there are: results do not depend on their number.
"""

from __future__ import annotations

from typing import Final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.emit.statements import SYMBOL

LETTER: Final = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
#: What is cut: the batch (each index is a product), rows, or columns.
BATCH, ROWS, COLUMNS = 0, 1, 2
#: A part is at least so many operations of its unit, some ten microseconds of one core ...
_GEMM_FLOPS: Final = 1 << 20
_GEMV_FLOPS: Final = 1 << 16
#: ... and so wide: BLAS packs the other operand anew for each part.
_GEMM_WIDTH: Final = 256
_GEMV_WIDTH: Final = 16
#: Two parts of a single matrix product may be so small and so narrow.
_HALF_FLOPS: Final = 1 << 22
_HALF_WIDTH: Final = 80
#: A batch of fewer large products is cut inside them.
_FEW: Final = 8


class Cut(NamedTuple):
    """How a product is shared out: along what, how many units, and the least part."""

    along: int
    units: int
    quantum: int


def cut(kind: str, batch: int, m: int, n: int, k: int) -> Cut:
    """Where to cut `batch` products of m x k and k x n; for a 'gemv' n or m is 1."""
    flops, width = (_GEMM_FLOPS, _GEMM_WIDTH) if kind == "gemm" else (_GEMV_FLOPS, _GEMV_WIDTH)
    one = 2 * m * n * max(k, 1)
    if batch > 1 and (batch >= _FEW or one < 2 * flops):
        return Cut(BATCH, batch, max(1, -(-flops // one)))
    along, count = (ROWS, m) if m >= n else (COLUMNS, n)
    pairs = round(min(count / (2 * width), one / (2 * flops)))
    if kind == "gemm" and count >= 2 * _HALF_WIDTH and one >= 2 * _HALF_FLOPS:
        pairs = max(pairs, 1)
    return Cut(along, count, _up(count, 2 * pairs) if pairs else count)


def _up(count: int, parts: int) -> int:
    """The width of about that many equal parts, in whole vectors."""
    return -(-count // (16 * parts)) * 16


def routine(kind: str, dtype: str) -> str:
    """CBLAS's function, by its name in the library."""
    return f"scipy_cblas_{LETTER[dtype]}{kind}"


def text(name: str, kind: str, dtype: str) -> tuple[str, set[str]]:
    """The function `name(ptr pointers, ptr numbers, i64 count, i64 quantum)` of one BLAS routine,
    and the declarations that it needs.

    Pointers are those of both operands and of the result; numbers are `FIELDS[kind]`.
    """
    letter = LETTER[dtype]
    called = routine(kind, dtype)
    part = {"s": "float", "d": "double", "c": "float", "z": "double"}[letter]
    if letter in "sd":
        one, zero, scalar = f"{part} 1.0", f"{part} 0.0", part
    else:
        one, zero, scalar = "ptr @one", "ptr @zero", "ptr"
    types, arguments = _call(kind, scalar, one, zero)
    fields = FIELDS[kind]
    loads = [
        f"  %{f}.at = getelementptr i64, ptr %numbers, i64 {n}\n"
        f"  %{f} = load i64, ptr %{f}.at, align 8"
        for n, f in enumerate(fields)
    ]
    loads += [f"  %{f}.32 = trunc i64 %{f} to i32" for f in fields if f not in _WIDE]
    function = (
        _TEXT.replace("NAME", name).replace("LOADS", "\n".join(loads)).replace("PART", part)
        .replace("ROUTINE", called).replace("ARGUMENTS", arguments)
    )  # fmt: skip
    return function, {
        f"declare void @{called}({types})",
        f"declare void @{SYMBOL}(ptr, ptr, ptr, i64, i64, i64)",
    }


_WIDE: Final = ("along", "stride", "step_x", "step_y", "step_out", "m", "n")
_STEPS: Final = ("along", "stride", "step_x", "step_y", "step_out")  # steps in bytes
#: What a call says, as 64-bit integers: for gemv, m x n is the matrix as it lies in memory.
FIELDS: Final = {
    "gemm": ("flag_x", "flag_y", "m", "n", "k", "lead_x", "lead_y", "lead_out", *_STEPS),
    "gemv": ("flag_x", "m", "n", "lead_x", "step_vector", *_STEPS),
}


def _call(kind: str, scalar: str, one: str, zero: str) -> tuple[str, str]:
    """(the parameters' types, the arguments) of CBLAS's function, for row-major matrices."""
    if kind == "gemm":
        types = f"i32, i32, i32, i32, i32, i32, {scalar}, ptr, i32, ptr, i32, {scalar}, ptr, i32"
        return types, (
            "i32 101, i32 %flag_x.32, i32 %flag_y.32, i32 %m.32, i32 %n.32, i32 %k.32, "
            f"{one}, ptr %x.i, i32 %lead_x.32, ptr %y.i, i32 %lead_y.32, {zero}, "
            "ptr %out.i, i32 %lead_out.32"
        )
    types = f"i32, i32, i32, i32, {scalar}, ptr, i32, ptr, i32, {scalar}, ptr, i32"
    return types, (
        f"i32 101, i32 %flag_x.32, i32 %m.32, i32 %n.32, {one}, ptr %x.i, i32 %lead_x.32, "
        f"ptr %y.i, i32 %step_vector.32, {zero}, ptr %out.i, i32 1"
    )


_TEXT: Final = """
@one = private constant [2 x PART] [PART 1.0, PART 0.0]
@zero = private constant [2 x PART] zeroinitializer

define internal void @NAME.part(ptr %pointers, ptr %numbers, i64 %low, i64 %high) nounwind {
entry:
  %x = load ptr, ptr %pointers, align 8
  %y.place = getelementptr ptr, ptr %pointers, i64 1
  %y = load ptr, ptr %y.place, align 8
  %out.place = getelementptr ptr, ptr %pointers, i64 2
  %out = load ptr, ptr %out.place, align 8
LOADS
  %rows = icmp eq i64 %along, 1
  %columns = icmp eq i64 %along, 2
  br label %loop
loop:
  %i = phi i64 [%low, %entry], [%next, %loop]
  %next = add i64 %i, %stride
  %more = icmp slt i64 %next, %high
  %end = select i1 %more, i64 %next, i64 %high
  %count = sub i64 %end, %i
  %m.part = select i1 %rows, i64 %count, i64 %m
  %m.32 = trunc i64 %m.part to i32
  %n.part = select i1 %columns, i64 %count, i64 %n
  %n.32 = trunc i64 %n.part to i32
  %x.offset = mul i64 %i, %step_x
  %x.i = getelementptr i8, ptr %x, i64 %x.offset
  %y.offset = mul i64 %i, %step_y
  %y.i = getelementptr i8, ptr %y, i64 %y.offset
  %out.offset = mul i64 %i, %step_out
  %out.i = getelementptr i8, ptr %out, i64 %out.offset
  call void @ROUTINE(ARGUMENTS)
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @NAME(ptr %pointers, ptr %numbers, i64 %count, i64 %quantum) nounwind {
entry:
  %alone = icmp sge i64 %quantum, %count
  br i1 %alone, label %serial, label %shared
serial:
  call void @NAME.part(ptr %pointers, ptr %numbers, i64 0, i64 %count)
  ret void
shared:
  call void @covector_parallel(ptr @NAME.part, ptr %pointers, ptr %numbers, i64 0, i64 %count,
                               i64 %quantum)
  ret void
}
"""
