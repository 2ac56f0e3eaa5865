"""What code is generated for: the CPU, its vectors, how a loop's tail is done; LLVM's own set-up.

One `Target` describes one machine for the emitter; `host()` is this one.  LLVM is initialised at
first use, from whichever thread comes first.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Final, final

import llvmlite
import llvmlite.binding as llvm

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
            [llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info)), triple, cpu,
             features, str(self.vector_bytes), self.tail, generator(), str(ABI)]
        )  # fmt: skip

    def lanes(self, widest: int) -> int:
        """Lanes of a loop over elements of at most `widest` bytes (never fewer than 4)."""
        return max(4, min(self.vector_bytes // widest, 64))

    def machine(self, opt: int = 2) -> Any:
        """A new LLVM TargetMachine for this CPU."""
        initialize()
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=opt, reloc="pic", codemodel="small"
        )


_lock = threading.Lock()
_state: dict[str, Any] = {}


def initialize() -> None:
    """Makes LLVM ready for this machine; once, whoever asks first."""
    if "ready" not in _state:
        with _lock:
            if "ready" not in _state:
                llvm.initialize_native_target()
                llvm.initialize_native_asmprinter()
                if "numba" not in sys.modules:
                    # Addresses are already what loop strength reduction would make of them, and
                    # it is a fifth of the compile time.  The option is for the whole process:
                    # Numba's code needs the pass.
                    llvm.set_option("covector", "-disable-lsr")
                _state["ready"] = True


def host() -> Target:
    """This machine; COVECTOR_VECTOR_BYTES and COVECTOR_TAIL override its width and tail."""
    if "host" not in _state:
        initialize()
        width = os.environ.get("COVECTOR_VECTOR_BYTES")
        target = Target(
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features().flatten(),
            int(width) if width else None,
            os.environ.get("COVECTOR_TAIL") or None,
        )
        with _lock:
            _state.setdefault("host", target)
    return _state["host"]
