"""What the runtime asks of a backend: to compile a program; and what it gets: an `Executable`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.op import Op
from covector.runtime.array import Array


class MemoryStats(NamedTuple):
    """Bytes a program needs: arguments, results, its arena, its code, constants it holds."""

    argument: int = 0
    output: int = 0
    temporary: int = 0
    code: int = 0
    constant: int = 0


class Executable(Protocol):
    """A compiled program, ready to run any number of times, from any thread."""

    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]

    def run(self, args: Sequence[Array]) -> list[Array]:
        """Runs it on arrays whose types are exactly `in_avals`."""
        ...

    def text(self, stage: str) -> str:
        """The program after a stage, such as 'jaxpr', 'loops', 'llvm', 'assembly'."""
        ...

    @property
    def memory(self) -> MemoryStats:
        """Bytes it needs."""
        ...


class Backend(Protocol):
    """One way to run programs on one platform."""

    name: str
    platform: str

    def compile(self, program: ClosedJaxpr, donated: Sequence[int] = ()) -> Executable:
        """Compiles a closed program; raises NotImplementedError for what it cannot express.

        donated: numbers of arguments that each run gives up.
        """
        ...

    def compile_op(self, op: Op, avals: tuple[ShapedArray, ...]) -> Executable | None:
        """One operation for eager use; None if the backend has no rule for it."""
        ...


class NativeCode:
    """Machine code and what a call of it needs.

    `address`: `void program(ptr buffers, ptr symbols)`; buffers are pointers to the elements of
    [hidden constants…, arguments…, outputs…, arena].
    hidden: arrays the program captured.  arena: bytes of scratch memory, 0 for none.
    symbols: run-time integers.  nanoseconds: estimated time of a run; 0 if unknown.
    size: bytes of the code.
    keep: whatever must live as long as the code (the engine that holds it).
    stages: text or functions giving text, by stage.
    after: of a program that calls Python, to be called when a run has ended: raises what a callback
    raised, if the results are none.
    """

    __slots__ = (
        "address", "after", "arena", "hidden", "keep", "nanoseconds", "size", "stages", "symbols",
    )  # fmt: skip

    def __init__(
        self,
        address: int,
        *,
        hidden: Sequence[Array] = (),
        arena: int = 0,
        symbols: Sequence[int] = (),
        nanoseconds: float = 0.0,
        size: int = 0,
        keep: Any = None,
        stages: dict[str, Any] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        self.address: Final = address
        self.hidden: Final = tuple(hidden)
        self.arena: Final = arena
        self.symbols: Final = tuple(symbols)
        self.nanoseconds: Final = nanoseconds
        self.size: Final = size
        self.keep: Final = keep
        self.stages: Final = stages or {}
        self.after: Final = after

    def with_hidden(self, arrays: Sequence[Array]) -> NativeCode:
        """The same code with its first arguments fixed."""
        return NativeCode(
            self.address,
            hidden=[*self.hidden, *arrays],
            arena=self.arena,
            symbols=self.symbols,
            nanoseconds=self.nanoseconds,
            size=self.size,
            keep=self.keep,
            stages=self.stages,
            after=self.after,
        )


class Backends:
    """The backends of the process by name, in order of preference; filled by the wiring."""

    def __init__(self) -> None:
        self.known: dict[str, Backend] = {}

    def add(self, backend: Backend, first: bool = False) -> None:
        """Makes a backend known; `first` puts it before the others of its platform."""
        if first:
            self.known = {backend.name: backend, **self.known}
        else:
            self.known[backend.name] = backend

    def get(self, name: str) -> Backend:
        """A backend by name, or the first that serves a platform of that name."""
        for backend in self.known.values():
            if name in (backend.name, backend.platform):
                return backend
        raise RuntimeError(
            f"Unknown backend {name}: the backends of this process are {list(self.known)}"
        )


backends: Final = Backends()
