"""A call of Python: the driver hands the program's own trampoline a number and pointers.

`void covector_host_call(i64 number, ptr words)`: pointers to the operands, then to the results,
then a word that becomes 1 unless Python raised.  If it stays 0, the program says so by a call with
the number -1, and returns at once.  Each program is linked with a trampoline of its own, so that no
address is in code that is kept.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from covector.backends.cpu.emit.types import I1, I8, I64, PTR
from covector.compiler.math.formats import numpy_dtype

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Builder, Value
    from covector.backends.cpu.library.site import Operand, Site

#: The function that the program imports.
SYMBOL: Final = "covector_host_call"
#: Values of so few bytes are copied for the call: what lies on the stack of a loop stays in
#: registers, since its address goes nowhere.
_SMALL: Final = 256


def host_call(site: Site) -> None:
    """The call, a return where it failed, and the token, if there is one."""
    number, with_token = site.attributes
    first = 1 if with_token else 0
    b = site.host.b
    given, made = site.inputs[first:], site.outputs[first:]
    count = len(given) + len(made)
    words = b.local(I64, count + 1)
    back: list[tuple[Value, Value, int]] = []
    for k, operand in enumerate([*given, *made]):
        pointer, nbytes = operand.pointer, _nbytes(operand)
        if 0 < nbytes <= _SMALL:
            room = b.local(I8, nbytes)
            if k < len(given):
                _copy(b, room, pointer, nbytes)
            else:
                back.append((pointer, room, nbytes))
            pointer = room
        b.effect("store", PTR, (pointer, b.put("gep", PTR, (words, b.int(k)), I64)), 8)
    status = b.put("gep", PTR, (words, b.int(count)), I64)
    b.effect("store", I64, (b.int(0), status), 8)
    site.host.imports(SYMBOL)
    b.effect("effect", PTR, (b.int(number), words), SYMBOL)
    done = b.put("load", I64, (status,), 8, len(b.scopes) - 1, keep=False)
    failed = b.cmp("icmp eq", done, b.int(0))
    b.leave_if(failed, lambda: b.effect("effect", PTR, (b.int(-1), words), SYMBOL))
    for to, room, nbytes in back:
        _copy(b, to, room, nbytes)
    if with_token:
        _copy(b, site.outputs[0].pointer, site.inputs[0].pointer, 1)


def _nbytes(operand: Operand) -> int:
    return math.prod(operand.shape) * numpy_dtype(operand.dtype).itemsize


def _copy(b: Builder, to: Value, source: Value, nbytes: int) -> None:
    args = (to, source, b.int(nbytes), b.const(False, I1))
    b.effect("effect", PTR, args, "llvm.memmove.p0.p0.i64")
