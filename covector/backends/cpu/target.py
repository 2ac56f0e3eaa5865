"""What code is generated for: the CPU, its vectors, how a loop's tail is done.

One `Target` describes one machine for the emitter; `host()` is this one.  What LLVM says of it is
kept on disk by the processor's own answer, so that a process with nothing to compile need not
load LLVM.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import Any, Final, final

from covector._base.digest import digest
from covector.backends import cpu
from covector.backends.cpu import cache, processor
from covector.backends.cpu.version import generator

#: Bumped when the calling convention of compiled pieces changes.
ABI: Final = 1


@final
class Target:
    """A CPU as the emitter sees it.

    `vector_bytes`: width of a vector register.  `tail`: 'masked' (the last, partial vector of a
    loop is done under a mask) or 'epilogue' (an overlapping vector where that is harmless, else
    scalars).  `f16c`: half <-> float conversion in hardware.  `pooled`: arithmetic reads constant
    vectors from memory (few registers, operands in memory, no broadcast within an instruction).
    """

    __slots__ = (
        "cpu", "f16c", "features", "fingerprint", "pooled", "tail", "triple", "vector_bytes",
    )  # fmt: skip

    def __init__(
        self,
        triple: str,
        cpu: str,
        features: str,
        vector_bytes: int | None = None,
        tail: str | None = None,
    ) -> None:
        has = {f[1:] for f in features.split(",") if f.startswith("+")}
        arm = triple.startswith(("aarch64", "arm64"))
        widest = 64 if "avx512f" in has and "avx512vl" in has else 32 if "avx2" in has else 16
        self.triple, self.cpu, self.features = triple, cpu, features
        self.vector_bytes = vector_bytes or widest
        # Masks are cheap where the machine has mask registers; elsewhere LLVM branches per lane.
        self.tail = tail or ("masked" if "avx512vl" in has and "avx512bw" in has else "epilogue")
        self.f16c = arm or "f16c" in has
        self.pooled = "avx2" in has and "avx512f" not in has
        self.fingerprint = "\n".join(
            [_described()[0], triple, cpu, features, str(self.vector_bytes), self.tail,
             generator(), str(ABI)]
        )  # fmt: skip

    def lanes(self, widest: int) -> int:
        """Lanes of a loop over elements of at most `widest` bytes (never fewer than 4)."""
        return max(4, min(self.vector_bytes // widest, 64))

    def machine(self, opt: int = 2) -> Any:
        """A new LLVM TargetMachine for this CPU."""
        return cpu.llvm.machine(self.triple, self.cpu, self.features, opt)


_lock = threading.Lock()
_state: dict[str, Any] = {}


def host() -> Target:
    """This machine; COVECTOR_VECTOR_BYTES and COVECTOR_TAIL override its width and tail."""
    if "host" not in _state:
        width = os.environ.get("COVECTOR_VECTOR_BYTES")
        _, triple, name, features = _described()
        tail = os.environ.get("COVECTOR_TAIL") or None
        target = Target(triple, name, features, int(width) if width else None, tail)
        with _lock:
            _state.setdefault("host", target)
    return _state["host"]


def _described() -> list[str]:
    """LLVM's version, and its names for this machine: from disk, or from LLVM."""
    if "described" not in _state:
        key = _key()
        stored = None if key is None else cache.lookup(key)
        if stored is None:
            described = cpu.llvm.describe()
            if key is not None:
                cache.store(key, "\n\n".join(described).encode())
        else:
            described = stored.decode().split("\n\n")
        with _lock:
            _state.setdefault("described", described)
    return _state["described"]


def _key() -> str | None:
    """What tells this processor with this LLVM from others, if that can be told without it."""
    name, package = processor.identity(), importlib.util.find_spec("llvmlite")
    if name is None or package is None or package.origin is None:
        return None
    try:
        with open(os.path.join(os.path.dirname(package.origin), "_version.py"), "rb") as file:
            version = file.read()
    except OSError:
        return None
    return "m" + digest(name.encode() + version).hexdigest()
