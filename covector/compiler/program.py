"""A planned program: steps over numbered slots of memory; what backends run and caches keep.

Names are canonical, so equal programs have equal text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from covector._base.named_tuple import NamedTuple
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


class Follower(NamedTuple):
    """Kernel number `kernel` on `slots`, whose loop of `trips` rounds may run in ranges, each as
    soon as its share of a library call's result is there."""

    kernel: int
    slots: tuple[int, ...]
    trips: int


class Leader(NamedTuple):
    """As a `Follower`, of a kernel that makes the first input; `own`: nobody else reads that."""

    kernel: int
    slots: tuple[int, ...]
    trips: int
    own: bool


@final
class LibraryCall:
    """Run a native routine by name.  Inputs and outputs share no memory.

    shapes: of the inputs, then of the outputs (a slot may be used in several shapes).
    followers: kernels that run after it, or on shares of its result as these are ready.
    leaders: kernels that run before it, or on shares of its first input just before it reads them.
    """

    __slots__ = ("attributes", "followers", "inputs", "leaders", "name", "outputs", "shapes")

    def __init__(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        shapes: Sequence[tuple[int, ...]],
        attributes: tuple[Any, ...] = (),
        followers: Sequence[tuple[int, tuple[int, ...], int]] = (),
        leaders: Sequence[tuple[int, tuple[int, ...], int, bool]] = (),
    ) -> None:
        self.name, self.shapes, self.attributes = name, tuple(shapes), attributes
        self.leaders = tuple(Leader(*f) for f in leaders)
        self.followers = tuple(Follower(*f) for f in followers)
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def __str__(self) -> str:
        names = [
            f"s{s}[{','.join(map(str, shape))}]"
            for s, shape in zip((*self.inputs, *self.outputs), self.shapes, strict=True)
        ]
        right, left = ", ".join(names[: len(self.inputs)]), ", ".join(names[len(self.inputs) :])
        extra = f" {self.attributes}" if self.attributes else ""
        calls = [
            f" {word} k{f.kernel}({', '.join(f's{s}' for s in f.slots)})"
            for word, kernels in (("after", self.leaders), ("then", self.followers))
            for f in kernels
        ]
        return f"{left} = library {self.name}({right}){extra}{''.join(calls)}"


@final
class Copy:
    """Copy the bytes of slot `source` to slot `target`, of the same size."""

    __slots__ = ("source", "target")

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target

    def __str__(self) -> str:
        return f"s{self.target} = copy s{self.source}"


@final
class Loop:
    """`while condition(...): carry = body(...)`, or so many rounds over the rows of arrays.

    condition, body: numbers of nested programs; condition None: run `length` times (backwards if
    `reverse`).  Inputs of a nested program: its constants, the carry and, of a body with xs, their
    rows of this round; results: the new carry, then rows of ys.  carry: slots that hold the initial
    values before, and the last ones after.  spare: for each carry a second buffer that rounds
    alternate with, or None where the body leaves the new value in the place of the old.
    arena: a slot for the nested programs' own arenas.  flag: a slot for the condition's result.
    ranges: more than one: rounds don't depend on each other, and may be run in so many ranges at
    once, each with an arena of its own.
    """

    __slots__ = (
        "arena", "body", "body_consts", "carry", "condition", "condition_consts", "flag", "length",
        "ranges", "reverse", "spare", "xs", "ys",
    )  # fmt: skip

    def __init__(
        self,
        condition: int | None,
        body: int,
        condition_consts: Sequence[int],
        body_consts: Sequence[int],
        carry: Sequence[int],
        spare: Sequence[int | None],
        xs: Sequence[int],
        ys: Sequence[int],
        length: int | None,
        reverse: bool,
        arena: int | None,
        flag: int | None,
        ranges: int = 1,
    ) -> None:
        self.condition, self.body, self.arena, self.flag = condition, body, arena, flag
        self.ranges = ranges
        self.condition_consts, self.body_consts = tuple(condition_consts), tuple(body_consts)
        self.carry, self.spare = tuple(carry), tuple(spare)
        self.xs, self.ys, self.length, self.reverse = tuple(xs), tuple(ys), length, reverse

    def __str__(self) -> str:
        def listed(slots: Sequence[int | None]) -> str:
            return ", ".join("-" if s is None else f"s{s}" for s in slots)

        order = " backwards" if self.reverse else ""
        order += f" in {self.ranges} ranges" if self.ranges > 1 else ""
        test = f"{self.length} times{order}" if self.condition is None else (
            f"while p{self.condition}({listed(self.condition_consts)})"
        )  # fmt: skip
        rows = f" rows ({listed(self.xs)}) -> ({listed(self.ys)})" if self.xs or self.ys else ""
        return (
            f"loop {test}: p{self.body}({listed(self.body_consts)}) carry ({listed(self.carry)}) "
            f"spare ({listed(self.spare)}){rows}"
        )


@final
class Branch:
    """Run one of nested `programs`, by the int32 in slot `index` (clipped to their number)."""

    __slots__ = ("arena", "index", "inputs", "outputs", "programs")

    def __init__(
        self,
        programs: Sequence[int],
        index: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        arena: int | None,
    ) -> None:
        self.programs, self.index, self.arena = tuple(programs), index, arena
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def __str__(self) -> str:
        left, right = (", ".join(f"s{s}" for s in side) for side in (self.outputs, self.inputs))
        return f"{left} = branch s{self.index} of {list(self.programs)} ({right})"


Action = KernelCall | LibraryCall | Copy | Loop | Branch


@final
class Program:
    """What a Jaxpr became.

    inputs: slots of the constants, then of the arguments.  outputs: slots of the results; an
    input's slot (the result is that argument itself), or one slot twice, are possible.
    arena: bytes of temporary memory; peak: what is alive at once at the worst moment.
    programs: the nested programs of loops and branches; each result of such a one is in memory of
    its own, or in the place of the carry that it replaces.
    """

    __slots__ = (
        "arena", "inputs", "kernels", "name", "outputs", "peak", "programs", "slots", "steps",
    )  # fmt: skip

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
        programs: Sequence[Program] = (),
    ) -> None:
        self.programs = list(programs)
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
        lines += [f"k{n}: {k}" for n, k in enumerate(self.kernels)]
        for n, p in enumerate(self.programs):
            lines += [f"p{n}: {p}".replace("\n", "\n  ")]
        return "\n".join(lines)

    def taken(self) -> list[int | None]:
        """For each result, the number of the donated input whose memory it takes over."""
        return [
            self.inputs.index(s) if self.slots[s].reused and s not in self.outputs[:n] else None
            for n, s in enumerate(self.outputs)
        ]

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
            "programs": [p.skeleton() for p in self.programs],
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
        data["name"], slots, data["inputs"], data["outputs"], steps, [], data["arena"],
        data["peak"], [from_skeleton(p) for p in data["programs"]],
    )  # fmt: skip


_STEPS: dict[str, Any] = {
    "kernel": KernelCall, "library": LibraryCall, "copy": Copy, "loop": Loop, "branch": Branch,
}  # fmt: skip
#: The fields of each kind of step, in the order of its constructor.
_FIELDS = {
    KernelCall: ("kernel", "kernel slots symbols"),
    LibraryCall: ("library", "name inputs outputs shapes attributes followers leaders"),
    Copy: ("copy", "source target"),
    Loop: ("loop", "condition body condition_consts body_consts carry spare xs ys length reverse "
                   "arena flag ranges"),
    Branch: ("branch", "programs index inputs outputs arena"),
}  # fmt: skip


def _packed(s: Action) -> list[Any]:
    kind, fields = _FIELDS[type(s)]
    return [kind, *(getattr(s, f) for f in fields.split())]


def _tuples(x: Any) -> Any:
    return tuple(map(_tuples, x)) if isinstance(x, (list, tuple)) else x
