"""A planned program: steps over numbered slots of memory; what backends run and caches keep.

Names are canonical, so equal programs have equal text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from covector.compiler.loops.program import Kernel

#: Buffers in the arena begin at multiples of this.
ALIGNMENT = 64


@final
class Slot:
    """A buffer of a program: dense, C order.

    home: 'in' (given by the caller), 'out' (made by the caller of the program, which keeps it) or
    'temp' (at `offset` of the arena).  `reused`: a donated input that a result takes over.
    """

    __slots__ = ("dtype", "home", "nbytes", "offset", "reused", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str, nbytes: int, home: str) -> None:
        self.shape, self.dtype, self.nbytes, self.home = shape, dtype, nbytes, home
        self.offset: int | None = None
        self.reused = False

    def __str__(self) -> str:
        where = f" at {self.offset}" if self.home == "temp" else ""
        mark = " reused" if self.reused else ""
        return f"{self.home}{mark} {self.dtype}[{','.join(map(str, self.shape))}]{where}"


@final
class KernelCall:
    """Run kernel number `kernel` on `slots`, in the order of its buffers that are not scratch."""

    __slots__ = ("kernel", "slots", "symbols")

    def __init__(self, kernel: int, slots: Sequence[int], symbols: Sequence[int] = ()) -> None:
        self.kernel, self.slots, self.symbols = kernel, tuple(slots), tuple(symbols)

    def __str__(self) -> str:
        inside = [f"s{s}" for s in self.slots] + [str(n) for n in self.symbols]
        return f"call k{self.kernel}({', '.join(inside)})"


@final
class LibraryCall:
    """Run a native routine by name.  Inputs and outputs share no memory.

    shapes: of the inputs, then of the outputs (a slot may be used in several shapes).
    """

    __slots__ = ("attributes", "inputs", "name", "outputs", "shapes")

    def __init__(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        shapes: Sequence[tuple[int, ...]],
        attributes: tuple[Any, ...] = (),
    ) -> None:
        self.name, self.shapes, self.attributes = name, tuple(shapes), attributes
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def __str__(self) -> str:
        names = [
            f"s{s}[{','.join(map(str, shape))}]"
            for s, shape in zip((*self.inputs, *self.outputs), self.shapes, strict=True)
        ]
        right, left = ", ".join(names[: len(self.inputs)]), ", ".join(names[len(self.inputs) :])
        extra = f" {self.attributes}" if self.attributes else ""
        return f"{left} = library {self.name}({right}){extra}"


@final
class Copy:
    """Copy the bytes of slot `source` to slot `target`, of the same size."""

    __slots__ = ("source", "target")

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target

    def __str__(self) -> str:
        return f"s{self.target} = copy s{self.source}"


Action = KernelCall | LibraryCall | Copy


@final
class Program:
    """What a Jaxpr became.

    inputs: slots of the constants, then of the arguments.  outputs: slots of the results; an
    input's slot (the result is that argument itself), or one slot twice, are possible.
    arena: bytes of temporary memory; peak: what is alive at once at the worst moment.
    """

    __slots__ = ("arena", "inputs", "kernels", "name", "outputs", "peak", "slots", "steps")

    def __init__(
        self,
        name: str,
        slots: list[Slot],
        inputs: Sequence[int],
        outputs: Sequence[int],
        steps: list[Action],
        kernels: list[Kernel],
        arena: int = 0,
        peak: int = 0,
    ) -> None:
        self.name, self.slots, self.steps, self.kernels = name, slots, steps, kernels
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.arena, self.peak = arena, peak

    def __str__(self) -> str:
        def listed(numbers: Sequence[int]) -> str:
            return ", ".join(f"s{n}" for n in numbers)

        head = f"program {self.name}({listed(self.inputs)}) -> ({listed(self.outputs)})"
        lines = [f"{head} arena {self.arena}"]
        lines += [f"    s{n}: {slot}" for n, slot in enumerate(self.slots)]
        lines += [f"    {step}" for step in self.steps]
        return "\n".join([*lines, *(f"k{n}: {k}" for n, k in enumerate(self.kernels))])

    def skeleton(self) -> dict[str, Any]:
        """All but the kernels' bodies, as plain lists and numbers (for a cache on disk)."""
        return {
            "name": self.name,
            "slots": [
                [list(s.shape), s.dtype, s.nbytes, s.home, s.offset, s.reused] for s in self.slots
            ],
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "steps": [_packed(s) for s in self.steps],
            "kernels": len(self.kernels),
            "arena": self.arena,
            "peak": self.peak,
        }


def from_skeleton(data: dict[str, Any]) -> Program:
    """A program without kernels, from `Program.skeleton`."""
    slots = []
    for shape, dtype, nbytes, home, offset, reused in data["slots"]:
        slot = Slot(tuple(shape), dtype, nbytes, home)
        slot.offset, slot.reused = offset, reused
        slots.append(slot)
    steps = [_STEPS[kind](*map(_tuples, fields)) for kind, *fields in data["steps"]]
    return Program(
        data["name"], slots, data["inputs"], data["outputs"], steps, [], data["arena"], data["peak"]
    )


_STEPS: dict[str, Any] = {"kernel": KernelCall, "library": LibraryCall, "copy": Copy}


def _packed(s: Action) -> list[Any]:
    if isinstance(s, KernelCall):
        return ["kernel", s.kernel, list(s.slots), list(s.symbols)]
    if isinstance(s, LibraryCall):
        return ["library", s.name, list(s.inputs), list(s.outputs), list(s.shapes), s.attributes]
    return ["copy", s.source, s.target]


def _tuples(x: Any) -> Any:
    return tuple(map(_tuples, x)) if isinstance(x, (list, tuple)) else x
