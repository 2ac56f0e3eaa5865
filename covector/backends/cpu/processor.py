"""Which processor this is, asked without LLVM: what it said of the machine is kept by this name.

It is the processor's own answer (the instruction `cpuid`), with what the system and a hypervisor
let it do; nothing of it is understood here.
"""

from __future__ import annotations

import ctypes
from typing import Final

from covector.backends.cpu.image import PAGE, SUPPORTED, Image, Placed

#: void cpuid(uint32_t out[4], uint32_t leaf, uint32_t subleaf)
_CPUID: Final = bytes.fromhex("53 89f0 89d1 0fa2 8907 895f04 894f08 89570c 5b c3")
#: void xgetbv(uint32_t out[2])
_XGETBV: Final = bytes.fromhex("31c9 0f01d0 8907 895704 c3")
#: (leaf, subleaf, which of eax, ebx, ecx, edx tell of features).  What else they tell is of one
#: core, and differs from call to call: leaf 1 has the core's number in ebx.
_LEAVES: Final = (
    (0x0, 0, "abcd"), (0x1, 0, "acd"), (0x7, 0, "abcd"), (0x7, 1, "abcd"), (0xD, 1, "a"),
    (0x14, 0, "b"), (0x19, 0, "b"), (0x24, 0, "abcd"), (0x80000000, 0, "a"),
    (0x80000001, 0, "cd"), (0x80000008, 0, "b"),
)  # fmt: skip
_OSXSAVE: Final = 1 << 27


def identity() -> str | None:
    """What tells this processor from others; None where there is no way to ask."""
    if not SUPPORTED:
        return None
    names = {"cpuid": 0, "xgetbv": len(_CPUID)}
    code = Placed(Image(_CPUID + _XGETBV, PAGE, PAGE, names, {}, []), {})
    out = (ctypes.c_uint32 * 4)()
    ask = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)(code.address)
    said = []
    limit = {0x0: 0, 0x80000000: 0x80000000}  # the highest leaf of each range
    for leaf, subleaf, registers in _LEAVES:
        start = leaf & 0x80000000
        if leaf > limit[start]:
            continue
        ask(out, leaf, subleaf)
        if leaf == start:
            limit[start] = out[0]
        if leaf == 0x1 and out[2] & _OSXSAVE:
            features = list(out)
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address + names["xgetbv"])(out)
            said.append(out[0])
            out[:] = features
        said += [word for name, word in zip("abcd", out, strict=True) if name in registers]
    return " ".join(f"{word:x}" for word in said)
