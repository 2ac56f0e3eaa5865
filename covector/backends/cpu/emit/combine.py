"""What the accumulators of folds and updates do: identities, combining, reducing across lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from covector.backends.cpu.emit.arith import RULES
from covector.backends.cpu.emit.convert import convert
from covector.backends.cpu.emit.ssa import Builder, Value
from covector.backends.cpu.emit.types import ELEMENTS, Element, element
from covector.compiler.loops.program import COMBINE

_OP: Final = {"sum": "add", "prod": "mul", "and": "and", "or": "or", "xor": "xor"}
_BOOL: Final = {"sum": "or", "prod": "and", "max": "or", "min": "and"}
Values = tuple[Value, ...]


@final
class Combiner:
    """`kind` over elements of type `dtype`; its state is one value, or (value, index), or, for the
    product of complex numbers, (re, im), or, for the extreme of floats, (the best number, an
    integer that is negative once a NaN was met)."""

    __slots__ = ("_combine", "_extreme", "_follow", "element", "kind", "outside", "sums", "types")

    def __init__(self, kind: str, dtypes: tuple[str, ...]) -> None:
        if kind not in COMBINE:
            raise ValueError(f"a fold of kind {kind!r}: known are {', '.join(COMBINE)}")
        self.outside = tuple(element(d) for d in dtypes)
        first = self.outside[0]
        # Half-width floats accumulate in float32 and are rounded once, at the end.
        self.element: Element = ELEMENTS["float32"] if first.group == "h" else first
        self.types = (self.element, *self.outside[1:])
        self.kind = _BOOL.get(kind, kind) if first.group == "b" else kind
        self.sums = self.kind == "sum" and self.element.group == "f"
        self._extreme = self.kind in ("max", "min") and self.element.group == "f"
        if self._extreme:
            self.types = (self.element, ELEMENTS[f"int{self.element.register.bits}"])
        self._combine = _rule(self.kind, self.types)
        picks = self.kind in ("argmax", "argmin")
        self._follow = _arg_follow(self.kind == "argmax", first) if picks else self._combine

    def start(self, b: Builder, lanes: int) -> Values:
        """The identity, in every lane."""
        return tuple(
            b.const(n, t.register.of(lanes))
            for n, t in zip(_identity(self.kind, self.types), self.types, strict=True)
        )

    def lift(self, b: Builder, values: Values) -> Values:
        """Values as they are accumulated."""
        return self.lift_all(b, [values])[0]

    def lift_all(self, b: Builder, all_values: list[Values]) -> list[Values]:
        """As `lift`, of values that will meet: one comparison finds the NaN of two of them."""
        types = self.types[: len(self.outside)]
        lifted = [
            tuple(convert(b, v, o, t) for v, o, t in zip(values, self.outside, types, strict=True))
            for values in all_values
        ]
        if not self._extreme:
            return lifted
        out: list[Values] = []
        for n in range(0, len(lifted), 2):
            (x,), (y,) = lifted[n], lifted[min(n + 1, len(lifted) - 1)]
            bad = b.cast("sext", b.cmp("fcmp uno", x, y), self.types[1].register)
            out.append((x, bad))
            if n + 1 < len(lifted):
                out.append((y, b.const(0, bad.type)))
        return out

    def lower(self, b: Builder, values: Values) -> Values:
        """Accumulated values as the elements they stand for."""
        if self._extreme:
            best, bad = values
            met = b.cmp("icmp slt", bad, b.const(0, bad.type))
            values = (b.select(met, b.const(float("nan"), best.type), best),)
        types = self.types[: len(self.outside)]
        return tuple(convert(b, v, t, o)
                     for v, o, t in zip(values, self.outside, types, strict=True))  # fmt: skip

    def combine(self, b: Builder, old: Values, new: Values) -> Values:
        """`old` combined with `new`."""
        return self._combine(b, old, new)

    def follow(self, b: Builder, old: Values, new: Values) -> Values:
        """`old` combined with `new`, whose index is a later one: a tie is no question."""
        return self._follow(b, old, new)

    def tree(self, b: Builder, states: list[Values]) -> Values:
        """Several states as one, pairwise."""
        while len(states) > 1:
            pairs = [self.combine(b, x, y) for x, y in zip(states[::2], states[1::2], strict=False)]
            states = pairs + states[len(states) // 2 * 2 :]
        return states[0]

    def across(self, b: Builder, state: Values) -> Values:
        """The lanes of one state as one scalar state, by halves."""
        lanes = state[0].type.lanes
        while lanes > 1:
            lanes //= 2
            halves = [
                tuple(
                    b.extract(v, n) if lanes == 1
                    else b.shuffle(v, None, range(n * lanes, (n + 1) * lanes))
                    for v in state
                )
                for n in range(2)
            ]  # fmt: skip
            state = self.combine(b, *halves)
        return state


def _rule(kind: str, types: tuple[Element, ...]) -> Callable[[Builder, Values, Values], Values]:
    group = types[0].group
    if kind in ("argmax", "argmin"):
        return _arg_rule(kind == "argmax", group, types[1].group)
    if kind == "prod" and len(types) == 2:
        return _complex_product
    if kind in ("max", "min") and group == "f":
        predicate = "fcmp olt" if kind == "max" else "fcmp ogt"
        return lambda b, x, y: _extreme(b, predicate, x, y)
    rule = RULES[_OP.get(kind, kind), group]
    return lambda b, x, y: (rule(b, x[0], y[0]),)


def _extreme(b: Builder, predicate: str, old: Values, new: Values) -> Values:
    """Two zeros count as equal (unlike the elementwise max: it is dearer)."""
    (x, bad), (y, worse) = old, new
    best = b.select(b.cmp(predicate, x, y), y, x)
    if worse.op == "const":
        return best, bad
    return best, worse if bad.op == "const" else b.bin("or", bad, worse)


def _complex_product(b: Builder, x: Values, y: Values) -> Values:
    (a, p), (c, q) = x, y
    multiply = lambda u, v: b.bin("fmul contract", u, v)  # noqa: E731
    return (b.bin("fsub contract", multiply(a, c), multiply(p, q)),
            b.bin("fadd contract", multiply(a, q), multiply(p, c)))  # fmt: skip


def _arg_rule(largest: bool, group: str, index: str) -> Callable[[Builder, Values, Values], Values]:
    less = "icmp slt" if index == "s" else "icmp ult"

    def rule(b: Builder, old: Values, new: Values) -> Values:
        (a, i), (x, j) = old, new
        earlier = b.cmp(less, j, i)
        if group == "f":
            beats = b.bin("and", b.cmp("fcmp ugt" if largest else "fcmp ult", x, a),
                          b.cmp("fcmp ord", a, a))  # fmt: skip
            nans = b.bin("and", b.cmp("fcmp uno", x, x), b.cmp("fcmp uno", a, a))
            tie = b.bin("or", b.cmp("fcmp oeq", x, a), nans)
        else:
            sign = "s" if group == "s" else "u"
            beats = b.cmp(f"icmp {sign}{'gt' if largest else 'lt'}", x, a)
            tie = b.cmp("icmp eq", x, a)
        take = b.bin("or", beats, b.bin("and", tie, earlier))
        return b.select(take, x, a), b.select(take, j, i)

    return rule


def _arg_follow(largest: bool, e: Element) -> Callable[[Builder, Values, Values], Values]:
    """As `_arg_rule`, where indices grow; what ties with the start leaves its index as it is."""
    real = e.group in "fh"
    sign = "s" if e.group == "s" else "u"
    beats = f"{'fcmp' if real else 'icmp'} {sign}{'gt' if largest else 'lt'}"

    def rule(b: Builder, old: Values, new: Values) -> Values:
        (a, i), (x, j) = old, new
        take = b.cmp(beats, x, a)
        if real:
            take = b.bin("and", take, b.cmp("fcmp ord", a, a))
        return b.select(take, x, a), b.select(take, j, i)

    return rule


def no_index(c: Combiner) -> int:
    """The index that an accumulator of argmax or argmin starts with: greater than any."""
    return _identity(c.kind, c.types)[1]  # type: ignore[return-value]


def _identity(kind: str, types: tuple[Element, ...]) -> tuple[object, ...]:
    first = types[0]
    if kind in ("argmax", "argmin"):
        bits = types[1].register.bits - (types[1].group == "s")
        return _least(first, kind == "argmax"), (1 << bits) - 1
    if kind in ("max", "min"):
        return (_least(first, kind == "max"), 0)[: len(types)]
    if kind == "prod" and len(types) == 2:
        return (1.0, 0.0)
    if first.group == "f":  # the identity of floating-point addition is -0
        return (-0.0 if kind == "sum" else 1.0,)
    return ({"sum": 0, "or": 0, "xor": 0, "prod": 1, "and": -1}[kind],)


def _least(e: Element, least: bool) -> object:
    """The least (or greatest) element."""
    if e.group == "f":
        return float("-inf") if least else float("inf")
    if e.group in "ub":
        return 0 if least else (1 << e.register.bits) - 1
    return -(1 << e.register.bits - 1) if least else (1 << e.register.bits - 1) - 1
