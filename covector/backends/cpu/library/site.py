"""Where a routine's code goes: the driver being built, the buffers of the call, its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, final

from covector._base.named_tuple import NamedTuple
from covector.backends.cpu.emit.types import PARTS, element

if TYPE_CHECKING:
    from covector.backends.cpu.emit.ssa import Builder, Value
    from covector.backends.cpu.target import Target
    from covector.compiler.loops.program import Kernel


class Host(Protocol):
    """The driver, as routines see it."""

    b: Builder
    target: Target

    def run_kernel(self, kernel: Kernel, pointers: list[Value]) -> None:
        """Emits a call of a loop program."""

    def code(self, name: str, make: Any, quick: bool = False) -> None:
        """Makes sure that the function `name` is linked in: `make()` gives its module's text;
        `quick`: it does little itself."""

    def imports(self, name: str) -> None:
        """Says that the function `name` comes from a library."""


@final
class Operand:
    """A buffer of the call: dense, C order."""

    __slots__ = ("dtype", "pointer", "shape")

    def __init__(self, pointer: Value, shape: tuple[int, ...], dtype: str) -> None:
        self.pointer, self.shape, self.dtype = pointer, shape, dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        parts = PARTS.get(self.dtype)
        return 2 * element(parts).size if parts else element(self.dtype).size


class Follower(NamedTuple):
    """A kernel that runs after the routine, or part by part of its result: of one loop of `trips`
    iterations, a range of which runs when the same share of the result is there."""

    kernel: Kernel
    trips: int
    pointers: list[Value]


class Leader(NamedTuple):
    """As a `Follower`, of a kernel that makes the first input, part by part; `own`: which of its
    pointers that is, if the rows may be anywhere else, since nobody reads them but the routine."""

    kernel: Kernel
    trips: int
    pointers: list[Value]
    own: int | None


@final
class Site:
    """One call of a routine; `followers`: what it runs on each part of its result; `leaders`: on
    each part of its first input, before it reads that."""

    __slots__ = ("attributes", "followers", "host", "inputs", "leaders", "outputs")

    def __init__(
        self,
        host: Host,
        inputs: list[Operand],
        outputs: list[Operand],
        attributes: tuple[Any, ...],
        followers: Sequence[Follower] = (),
        leaders: Sequence[Leader] = (),
    ) -> None:
        self.leaders = tuple(leaders)
        self.host, self.inputs, self.outputs, self.attributes = host, inputs, outputs, attributes
        self.followers = tuple(followers)
