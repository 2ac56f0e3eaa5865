"""The option `debug_key_reuse`: which random keys an operation, or a program, consumes.

Each element of an array of keys is followed as a `Key`, through whatever moves keys about, into
the programs of calls, loops and branches.  Drawing from a key and splitting it consume it;
`fold_in` does not.  A value of which it can't be told which key it is (a position known only at
run time) counts as a new key, so that there is no false alarm.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from covector import dtypes
from covector._base.errors import KeyReuseError, compose_message
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Jaxpr, Literal
from covector.ir.op import Op, has_rule
from covector.ops.call import Call
from covector.ops.control import Cond, Scan, While
from covector.ops.random_bits import RandomBits, RandomFoldIn, RandomSeed, RandomSplit, RandomWrap
from covector.ops.random_gamma import RandomGamma
from covector.ops.remat import Checkpoint

CONSUMING: Final = (RandomBits, RandomSplit, RandomGamma)
#: Their results are new keys, whatever they were made of.
MAKING: Final = (RandomSeed, RandomWrap, RandomFoldIn)
#: Values of at most so many elements are computed, to see which keys they select.
SMALL: Final = 1 << 12


class Place:
    """An operation and the user's line; the line is read when somebody prints it."""

    __slots__ = ("op", "source")

    def __init__(self, op: Op, source: Any) -> None:
        self.op, self.source = op, source

    def said(self, when: str) -> str:
        """The place, with the text of its line."""
        where = f" at {self.source}" if self.source else ""
        text = self.source.text if self.source else ""
        return f"{when} by {self.op.name}{where}" + (f":\n    {text}" if text else "")

    @property
    def argument(self) -> str:
        """What the user's line calls the key, where that is a plain name."""
        expression = getattr(self.source, "expression", "")
        try:
            call: Any = ast.parse(expression, mode="eval").body
            given = [*call.args, *(w.value for w in call.keywords if w.arg == "key")]
            return given[0].id
        except (SyntaxError, AttributeError, IndexError):
            return ""


class Key:
    """One key: where it was consumed (None: not yet), and what it is called in messages."""

    __slots__ = ("label", "place")

    def __init__(self, label: str = "", place: Place | None = None) -> None:
        self.label, self.place = label, place


#: For an array of keys, an array of `Key`; of other values the NumPy array if it is known.
Known = Any


def is_key(aval: Any) -> bool:
    """Whether a type is that of random keys."""
    return isinstance(aval.dtype, dtypes.KeyType)


def new_keys(shape: Sequence[int], label: str = "", place: Place | None = None) -> np.ndarray:
    """Keys that nobody has consumed, or all of them at `place`."""
    out = np.empty(shape, object)
    for k in np.ndindex(out.shape):
        out[k] = Key(label, place)
    return out


def check_program(closed: ClosedJaxpr, labels: Sequence[str]) -> None:
    """Raises KeyReuseError if the program consumes a key twice, naming both places.

    labels: what its arguments are called.
    """
    body = closed.jaxpr
    given = [
        new_keys(v.aval.shape, label) if is_key(v.aval) else None
        for v, label in zip(body.invars, labels, strict=True)
    ]
    captured = [
        new_keys(v.aval.shape, "captured by the function") if is_key(v.aval) else None
        for v in body.constvars
    ]
    run(body, [*captured, *given])


def run(body: Jaxpr, args: Sequence[Known]) -> list[Known]:
    """The keys among the results of a program; arguments: its constants, then its own."""
    env: dict[Any, Known] = dict(zip([*body.constvars, *body.invars], args, strict=True))

    def read(v: Any) -> Known:
        return np.asarray(v.val) if isinstance(v, Literal) else env[v]

    for eqn in body.eqns:
        outs = follow(
            eqn.op,
            [read(v) for v in eqn.invars],
            [v.aval for v in eqn.invars],
            [v.aval for v in eqn.outvars],
            eqn.source,
        )
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in body.outvars]


def follow(
    op: Op,
    args: Sequence[Known],
    avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    source: Any,
) -> list[Known]:
    """The keys among the results of `op`, which consumes some of its arguments."""
    place = Place(op, source)
    if isinstance(op, CONSUMING):
        consume(args[0].flat, place)
    elif isinstance(op, Call):
        if not (isinstance(op, Checkpoint) and op.differentiated):  # else it draws again
            return run(op.jaxpr.jaxpr, [*op.jaxpr.consts, *args])
    elif isinstance(op, Scan):
        return _scan(op, args, out_avals, place)
    elif isinstance(op, While):
        return _while(op, args, out_avals, place)
    elif isinstance(op, Cond):
        return _cond(op, args, out_avals, place)
    elif not isinstance(op, MAKING):
        moved = _moved(op, args, avals, out_avals)
        if moved is not None:
            return moved
    return _unrelated(out_avals)


def _unrelated(out_avals: Sequence[ShapedArray]) -> list[Known]:
    return [new_keys(a.shape) if is_key(a) else None for a in out_avals]


def consume(keys: Any, place: Place) -> None:
    """Notes that these keys are consumed.  Raises KeyReuseError for one that has been."""
    for key in {id(k): k for k in keys}.values():
        if key.place is not None:
            raise _error(key, place, key.place.said("First"), place.said("then"))
        key.place = place


def _error(key: Key, place: Place, *places: str) -> KeyReuseError:
    name = place.argument
    if not name:
        name = key.label.split(" ")[1] if key.label.startswith("argument ") else "key"
    return KeyReuseError(
        compose_message(
            "A random key is consumed twice.",
            *places,
            f"The key is {key.label}." if key.label else "",
            advice="Numbers drawn from one key are equal or correlated: make a key for each use, "
            f"`k1, k2 = random.split({name})`, or use `random.clone({name})` where that is meant.",
            see="KeyReuseError",
        )
    )


def _moved(
    op: Op, args: Sequence[Known], avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> list[Known] | None:
    """The results of an operation on known values, by its NumPy rule; None if that says nothing.

    Keys are put in as their numbers, from 1 on: what comes out says which are where.
    """
    moves_keys = any(map(is_key, out_avals))
    if not moves_keys and any(a.size > SMALL for a in (*avals, *out_avals)):
        return None
    if any(x is None for x in args) or op.effects or not has_rule(op, "numpy"):
        return None
    if not moves_keys and any(map(is_key, avals)):
        return None
    keys: list[Key | None] = [None]
    given: list[Any] = []
    for x, aval in zip(args, avals, strict=True):
        if is_key(aval):
            given.append(np.arange(len(keys), len(keys) + x.size, dtype=np.uint64).reshape(x.shape))
            keys.extend(x.flat)
        else:
            given.append(x)
    with np.errstate(all="ignore"):
        outs = op.numpy(*given)
    outs = outs if op.multiple_results else [outs]
    return [
        _by_number(np.asarray(x), keys) if is_key(a) else np.asarray(x)
        for x, a in zip(outs, out_avals, strict=True)
    ]


def _by_number(numbers: np.ndarray, keys: Sequence[Key | None]) -> np.ndarray:
    out = np.empty(numbers.shape, object)
    for k in np.ndindex(numbers.shape):
        n = int(numbers[k])
        out[k] = (keys[n] if n < len(keys) else None) or Key()  # others were filled in
    return out


# Programs that may run several times, or not at all: what one run does to its arguments.


class _Once:
    """One run of a program on new keys: what it consumes, and where its results are from."""

    def __init__(self, body: ClosedJaxpr, given: Sequence[Known]) -> None:
        self.given = given
        self.outs = run(body.jaxpr, [*body.consts, *given])
        self._from = {
            id(key): (k, at)
            for k, x in enumerate(given)
            if x is not None
            for at, key in enumerate(x.flat)
        }

    def origin(self, key: Key) -> tuple[int, int] | None:
        """(number of the argument, which element) that a result is."""
        return self._from.get(id(key))


def _inputs(avals: Sequence[ShapedArray]) -> list[Known]:
    return [new_keys(a.shape) if is_key(a) else None for a in avals]


def _consumed(inner: Known, outer: Known) -> None:
    """Consumes those keys of `outer` whose stand-ins have been."""
    if inner is not None:
        for there, here in zip(inner.flat, outer.flat, strict=True):
            if there.place is not None:
                consume([here], there.place)


def _again(inner: Known, outer: Known, what: str) -> None:
    """Raises KeyReuseError if a key that all rounds of a loop share is consumed."""
    for there, here in zip(inner.flat, outer.flat, strict=True) if inner is not None else ():
        if there.place is not None:
            raise _error(here, there.place, there.place.said(f"In each round of a {what},"))


def _check_rounds(once: _Once, shared: int, carry: Sequence[int], args: Any, what: str) -> None:
    """Of a loop's body: arguments before `shared` stay, result n is the next carry[n]."""
    for k in range(shared):
        _again(once.given[k], args[k], what)
    for n, k in enumerate(carry):
        ends = once.outs[n]
        if ends is not None:
            # a carry is consumed in the next round, and has been in this one
            again = [x for x, y in zip(once.given[k].flat, ends.flat, strict=True)
                     if x.place is not None and y.place is not None]  # fmt: skip
            if again:
                place = again[0].place
                raise _error(again[0], place, place.said(f"In each round of a {what},"))


def _results(
    once: _Once, args: Sequence[Known], out_avals: Sequence[ShapedArray], stays: Sequence[int]
) -> list[Known]:
    """Keys of the results: those of arguments among `stays` as they are, others new."""
    found: list[Known] = []
    for aval, out in zip(out_avals, once.outs, strict=True):
        if out is None or not is_key(aval):
            found.append(None)
            continue
        made = np.empty(out.shape, object)
        for at, key in enumerate(out.flat):
            origin = once.origin(key)
            same = origin is not None and origin[0] in stays
            made.flat[at] = args[origin[0]].flat[origin[1]] if same else Key(place=key.place)  # type: ignore[index]
        rows = aval.shape[: len(aval.shape) - made.ndim]  # a scan's results are stacked
        found.append(np.broadcast_to(made, (*rows, *made.shape)).copy() if rows else made)
    return found


def _scan(op: Scan, args: Sequence[Known], out_avals: Any, place: Place) -> list[Known]:
    consts, n = op.num_consts, op.num_carry
    once = _Once(op.jaxpr, _inputs(op.jaxpr.in_avals))
    if op.length > 1:
        carry = range(consts, consts + n)
        _check_rounds(once, consts, carry, args, f"scan of {op.length} rounds")
    if op.length:
        for k, inner in enumerate(once.given):
            if inner is not None:
                rows = args[k] if k >= consts + n else [args[k]]
                for row in rows:
                    _consumed(inner, np.asarray(row, object).reshape(inner.shape))
    return _results(once, args, out_avals, range(consts))


def _while(op: While, args: Sequence[Known], out_avals: Any, place: Place) -> list[Known]:
    n = op.cond_nconsts
    body = _Once(op.body_jaxpr, _inputs(op.body_jaxpr.in_avals))
    shared = op.body_nconsts
    given = [*args[n : n + shared], *args[n + shared :]]
    _check_rounds(body, shared, range(shared, len(given)), given, "while loop")
    cond = _Once(op.cond_jaxpr, [*_inputs(op.cond_jaxpr.in_avals)])
    for k in range(n):
        _again(cond.given[k], args[k], "while loop")
    for inner, outer in zip(body.given, given, strict=True):
        _consumed(inner, outer)
    return _results(body, given, out_avals, range(shared))


def _cond(op: Cond, args: Sequence[Known], out_avals: Any, place: Place) -> list[Known]:
    """Consumed is what any branch consumes."""
    operands = args[1:]
    branches = [_Once(b, _inputs(b.in_avals)) for b in op.branches]
    for k, outer in enumerate(operands):
        for at, key in enumerate(outer.flat if branches[0].given[k] is not None else ()):
            places = [b.given[k].flat[at].place for b in branches]
            taken = next((p for p in places if p is not None), None)
            if taken is not None:
                consume([key], taken)
    found: list[Known] = []
    for n, aval in enumerate(out_avals):
        if not is_key(aval):
            found.append(None)
            continue
        out = new_keys(aval.shape)
        for at in range(out.size):
            keys = [b.outs[n].flat[at] for b in branches]
            origins = {b.origin(key) for b, key in zip(branches, keys, strict=True)}
            origin = origins.pop()
            if not origins and origin is not None:
                out.flat[at] = operands[origin[0]].flat[origin[1]]
            else:
                out.flat[at].place = next((k.place for k in keys if k.place is not None), None)
        found.append(out)
    return found
