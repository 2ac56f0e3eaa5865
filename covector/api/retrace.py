"""Why a function was traced again: how the types of this call differ from the last one's."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from covector._base.config import TraceKey
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray


class TraceCall(NamedTuple):
    """What a trace is filed under: everything that makes another call need a trace of its own.

    in_tree, avals: of the dynamic arguments; static: ((number or name, type, value), …) and the
    number of positional arguments, or None; options: of `config`; axes: the named axes in force.
    """

    in_tree: Any
    avals: tuple[ShapedArray, ...]
    static: Any
    options: TraceKey
    axes: tuple[tuple[Any, int], ...] = ()


def reasons(
    old: TraceCall, old_labels: Sequence[str], new: TraceCall, labels: Sequence[str]
) -> list[str]:
    """What differs: arguments by path, static values, options.  Labels name flat arguments."""
    found: list[str] = []
    if old.in_tree != new.in_tree:
        found += _structure(old, old_labels, new, labels)
    before = dict(zip(old_labels, old.avals, strict=True))
    for label, aval in zip(labels, new.avals, strict=True):
        was = before.get(label)
        if was is not None and was is not aval:
            found.append(f"{label} was {_type(was)}, now {_type(aval)}")
    found += _static(old.static, new.static)
    found += [
        f"option {name} was {was!r}, now {now!r}"
        for name, (was, now) in old.options.differences(new.options).items()
    ]
    if old.axes != new.axes:
        found.append(f"the named axes were {dict(old.axes)}, now {dict(new.axes)}")
    return found


def _structure(
    old: TraceCall, old_labels: Sequence[str], new: TraceCall, labels: Sequence[str]
) -> list[str]:
    gone = [label for label in old_labels if label not in set(labels)]
    more = [label for label in labels if label not in set(old_labels)]
    if gone or more:
        words = (("no longer there", gone), ("new", more))
        return [f"{_listed(which)}: {what}" for what, which in words if which]
    return [f"the structure of the arguments was {old.in_tree}, now {new.in_tree}"]


def _static(old: Any, new: Any) -> list[str]:
    before, now = _values(old), _values(new)
    out = [
        f"static argument {name} was {before[name][1]!r}, now {value!r}"
        for name, (kind, value) in now.items()
        if name in before and before[name] != (kind, value)
    ]
    out += [f"static argument {name}: no longer given" for name in before if name not in now]
    return out + [f"static argument {name}: newly given" for name in now if name not in before]


def _values(static: Any) -> dict[int | str, tuple[type, Any]]:
    if static is None:
        return {}
    (numbered, named), _ = static
    return {place: (kind, value) for place, kind, value in (*numbered, *named)}


def _type(aval: ShapedArray) -> str:
    return aval.strong().str_short() + (" (weakly typed)" if aval.weak_type else "")


class Event(NamedTuple):
    """One trace: what for, from where, and why it was needed.

    shared: nothing was traced, since an equal function had been.
    """

    call: TraceCall
    labels: Sequence[str]
    source: Any
    why: str
    shared: bool = False


class History:
    """The traces of one function, the latest of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: Traces; events of them and of programs that are shared.
        self.count = 0
        self.events: deque[Event] = deque(maxlen=REMEMBERED)

    def __bool__(self) -> bool:
        return bool(self.events)

    def add(
        self, call: TraceCall, labels: Sequence[str], source: Any, shared: bool = False
    ) -> None:
        """Note a trace, or that an equal function's is shared."""
        self.events.append(Event(call, labels, source, self.why(call, labels), shared))
        self.count += not shared

    def why(self, call: TraceCall, labels: Sequence[str]) -> str:
        """How a call differs from the trace that it is most like."""
        if not self.events:
            return "it was not traced before"
        found = [reasons(e.call, e.labels, call, labels) for e in reversed(self.events)]
        least = min(found, key=len)
        return "; ".join(least) or "what was traced is no longer kept, or no longer true"

    def forecast(self, call: TraceCall, labels: Sequence[str], known: bool) -> str:
        """What a call would do."""
        if not known:
            return f"{self.name} would be traced: {self.why(call, labels)}"
        for event in reversed(self.events):
            if event.call == call:
                return (
                    f"{self.name} would run the program traced for "
                    f"({signature(event.labels, event.call.avals)}), called at {event.source}"
                )
        return f"{self.name} would run a program that another jit of this function traced"

    def text(self) -> str:
        """All traces, a line each."""
        if not self.events:
            return f"{self.name} was not traced yet"
        times = {0: "not traced, but shares the programs of equal functions", 1: "traced once",
                 2: "traced twice"}.get(self.count, f"traced {self.count} times")  # fmt: skip
        lines = [f"{self.name} was {times}:"]
        n = self.count - sum(not e.shared for e in self.events)
        for k, event in enumerate(self.events):
            n += not event.shared
            number = "-" if event.shared else f"{n}."
            why = "" if k == 0 and n <= 1 else f": {event.why}"
            why = ": an equal function was traced for it" if event.shared else why
            shown = signature(event.labels, event.call.avals)
            lines.append(f"  {number} ({shown}), called at {event.source}{why}")
        return "\n".join(lines)

    def clear(self) -> None:
        """Forget all."""
        self.events.clear()
        self.count = 0


#: Traces of one function that are remembered.
REMEMBERED = 64
#: Arguments named in one line of the log.
SHOWN = 8


def signature(labels: Sequence[str], avals: Sequence[ShapedArray]) -> str:
    """'x: f32[3], w: f32[]', cut after the first few."""
    return _listed([f"{n}: {_type(a)}" for n, a in zip(labels, avals, strict=True)])


def _listed(words: Sequence[str]) -> str:
    more = f", … {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more
