"""Statements: loops, folds and stores, each emitted for a list of instances at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from covector.backends.cpu import emit
from covector.backends.cpu.emit import address, spread
from covector.backends.cpu.emit.address import scalar_index
from covector.backends.cpu.emit.memory import ask, store, store_parts
from covector.backends.cpu.emit.nest import part_names
from covector.backends.cpu.emit.ssa import Value
from covector.backends.cpu.emit.types import I1, PARTS, PTR
from covector.backends.cpu.emit.vectorise import (
    Phase,
    overlap_is_harmless,
    phases,
    whole_blocks,
)  # fmt: skip
from covector.compiler.loops.program import (
    Fold,
    For,
    If,
    Let,
    Repeat,
    Scan,
    Statement,
    Store,
    Update,
)
from covector.compiler.loops.transform import all_statements

if TYPE_CHECKING:
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest

#: What runs ranges of a loop on the worker threads (see workers.py).
SYMBOL: Final = "covector_parallel"


def emit_body(nest: Nest, statements: list[Statement], envs: list[Env]) -> None:
    """Each statement in turn, for every instance."""
    for s in statements:
        for env in envs:
            env.fresh.clear()
        EMIT[type(s)](nest, s, envs)


def _let(nest: Nest, s: Let, envs: list[Env]) -> None:
    nest.together(s.value, envs)
    for env in envs:
        if s.value.dtype in PARTS:
            values = nest.parts(s.value, env)
            for label, v in zip(part_names(s.name, s.value.dtype), values, strict=True):
                env.define(label, v)
        else:
            env.define(s.name, nest.value(s.value, env))


def _store(nest: Nest, s: Store, envs: list[Env]) -> None:
    if s.where is None:
        nest.together(s.value, envs)
    for env in envs:
        where = None if s.where is None else nest.value(s.where, env)
        if where is not None and where.type.lanes == 1:
            # One answer for all lanes: a branch, so that what it guards is not even read.
            def inside(env: Env = env) -> list[Value]:
                _put(nest, s, env.fork(), None)
                return []

            nest.b.branch(where, inside)
            continue
        _put(nest, s, env, where)


def _put(nest: Nest, s: Store, env: Env, where: Value | None) -> None:
    if s.value.dtype in PARTS:
        store_parts(nest, s.buffer, s.index, nest.parts(s.value, env), env, where)
    else:
        store(nest, s.buffer, s.index, nest.value(s.value, env), env, where)


def _bounds(nest: Nest, s: Any, env: Env) -> tuple[Value, Value]:
    return scalar_index(nest, s.low, env), scalar_index(nest, s.high, env)


def _together(
    nest: Nest, s: Any, envs: list[Env], emit: Callable[[Value, Value, list[Env]], None]
) -> None:
    """Instances whose bounds agree share one loop; others have loops of their own."""
    groups: dict[tuple[Value, Value], list[Env]] = {}
    for env in envs:
        groups.setdefault(_bounds(nest, s, env), []).append(env)
    for (low, high), group in groups.items():
        emit(low, high, group)


def _for(nest: Nest, s: For, envs: list[Env]) -> None:
    if s in nest.calls:
        _spread(nest, s, envs[0])
        return
    if nest.ranged is not None and nest.ranged[0] is s:
        _range(nest, s, envs, *nest.ranged[1:])
        return

    def vector(low: Value, high: Value, group: list[Env]) -> None:
        def loops(streams: bool) -> None:
            for phase in _phases(nest, s, low, high, streams):
                nest.b.loop(phase.low, phase.high, phase.step, [], _once(nest, s, phase, group))

        _streaming(nest, s, high, loops)

    def serial(low: Value, high: Value, group: list[Env]) -> None:
        _serial(nest, s, low, high, group)

    if s.mode == "tile" and emit.tile.fits(nest, s):
        for env in envs:
            low, high = _bounds(nest, s, env)
            emit.tile.tiled(nest, s, env, low, high, emit_body)
        return
    _together(nest, s, envs, vector if s.mode == "vector" and nest.lanes > 1 else serial)


def _spread(nest: Nest, s: For, env: Env) -> None:
    """Runs a loop that is a function of its own: on several threads if there is enough to do."""
    b = nest.b
    low, high = _bounds(nest, s, env)
    part = Value("const", PTR, (), None, 0, f"@{nest.calls[s]}")
    given = (part, b.argument("buffers", PTR), b.argument("symbols", PTR), low, high)
    # Ranges are whole blocks of vectors, and no two threads write one cache line over and over.
    quantum = {"vector": nest.lanes * s.unroll, "tile": 2 * nest.lanes}.get(s.mode, 1)
    if s.mode == "vector":
        quantum *= -(-spread.QUANTUM // quantum)

    def together() -> list[Value]:
        b.effect("effect", PTR, (*given, b.int(quantum)), SYMBOL)
        return []

    def alone() -> list[Value]:
        b.effect("effect", PTR, given[1:], nest.calls[s])
        return []

    total = b.mul(b.sub(high, low), spread.work(nest, s, env))
    if total.op == "const":
        together() if total.extra >= spread.WORTH else alone()
    else:
        b.branch(b.cmp("icmp sge", total, b.int(spread.WORTH)), together, alone)


def _range(nest: Nest, s: For, envs: list[Env], first: Value, last: Value) -> None:
    """The iterations `first .. last` of a loop; ranges begin at whole blocks from its start."""
    b = nest.b
    if s.mode == "tile" and emit.tile.fits(nest, s):
        emit.tile.tiled(nest, s, envs[0], first, last, emit_body)
        return
    if s.mode != "vector" or nest.lanes == 1:
        _serial(nest, s, first, last, envs)
        return
    low, high = _bounds(nest, s, envs[0])
    ends = b.cmp("icmp sge", last, high)

    def loops(streams: bool) -> None:
        for phase in _phases(nest, s, low, high, streams):
            body = _once(nest, s, phase, envs)
            if phase.main:
                stop = b.select(b.cmp("icmp slt", last, phase.high), last, phase.high)
                b.loop(first, stop, phase.step, [], body)
            else:
                run = lambda p=phase, f=body: b.loop(p.low, p.high, p.step, [], f)  # noqa: E731
                b.branch(ends, run)

    _streaming(nest, s, high, loops)


def _once(
    nest: Nest, s: For, phase: Phase, envs: list[Env]
) -> Callable[[Value, list[Value]], list[Value]]:
    """One trip of a phase of the vector loop `s`."""

    def body(i: Value, carried: list[Value]) -> list[Value]:
        copies, _ = phase.instances(i, envs)
        inner = [env for instances in copies for env in instances]
        ask(nest, s.asks, inner)
        emit_body(nest, s.body, inner)
        return carried

    return body


def _phases(nest: Nest, s: For, low: Value, high: Value, streams: bool) -> list[Phase]:
    return phases(nest, s.axis, low, high, s.unroll, overlap_is_harmless(s.body), streams)


def _streaming(nest: Nest, s: For, high: Value, loops: Callable[[bool], None]) -> None:
    """Emits a vector loop that writes past the caches, or not, or both and a choice at run time."""
    if any(isinstance(x, For | Fold | Scan | Repeat) for x in all_statements(s.body)):
        loops(False)  # by the time a line is full it may have left the few buffers there are
        return
    outs = [nest.memory[x.buffer] for x in all_statements(s.body) if isinstance(x, Store)]
    sizes = [m.element.size for m in outs if m.streams is None]
    if not sizes:
        loops(True)
        return

    def either(streams: bool) -> Callable[[], list[Value]]:
        def body() -> list[Value]:
            loops(streams)
            return []

        return body

    large = nest.b.cmp("icmp sge", high, nest.b.int(address.STREAMED // min(sizes)))
    nest.b.branch(large, either(True), either(False))


def _serial(nest: Nest, s: For, low: Value, high: Value, envs: list[Env]) -> None:
    b = nest.b

    def copies(count: int) -> Callable[[Value, list[Value]], list[Value]]:
        def body(i: Value, carried: list[Value]) -> list[Value]:
            inner = [env.bind(s.axis, i, u) for env in envs for u in range(count)]
            if s.ahead:
                for env in inner:
                    env.ahead = s.axis, s.ahead
            emit_body(nest, s.body, inner)
            return carried

        return body

    if s.unroll > 1:
        main = whole_blocks(b, low, high, s.unroll)
        b.loop(low, main, s.unroll, [], copies(s.unroll))
        low = main
    b.loop(low, high, 1, [], copies(1))


def _if(nest: Nest, s: If, envs: list[Env]) -> None:
    for env in envs:
        condition = nest.value(s.condition, env)
        if condition.type.lanes > 1:
            raise ValueError(f"the condition {s.condition} of an If differs between lanes")

        def side(statements: list[Statement], env: Env = env) -> Callable[[], list[Value]]:
            def body() -> list[Value]:
                emit_body(nest, statements, [env.fork()])
                return []

            return body

        nest.b.branch(condition, side(s.body), side(s.orelse) if s.orelse else None)


def _scan(nest: Nest, s: Scan, envs: list[Env]) -> None:
    _together(nest, s, envs, lambda low, high, group: _scan_loop(nest, s, low, high, group))


def _scan_loop(nest: Nest, s: Scan, low: Value, high: Value, envs: list[Env]) -> None:
    b = nest.b
    names = [n for name, value in s.carries for n in part_names(name, value.dtype)]
    start = [v for env in envs for _, value in s.carries for v in nest.all_lifted(value, env)]

    def body(i: Value, carried: list[Value]) -> list[Value]:
        at = b.sub(b.sub(b.add(low, high), b.int(1)), i) if s.reverse else i
        inner = [env.bind(s.axis, at) for env in envs]
        for k, env in enumerate(inner):
            for name, v in zip(names, carried[k * len(names) :], strict=False):
                env.define(name, v)
        emit_body(nest, s.body, inner)
        for env in inner:
            env.fresh.clear()
        return [v for env in inner for value in s.next for v in nest.all_lifted(value, env)]

    last = b.loop(low, high, 1, start, body)
    for k, env in enumerate(envs):
        for name, v in zip(names, last[k * len(names) :], strict=False):
            env.define(name, v)


def _repeat(nest: Nest, s: Repeat, envs: list[Env]) -> None:
    """Instances with lanes go round together, until the last lane of all has ended."""
    if nest.lanes == 1 or envs[0].lanes == 1:
        for env in envs:
            _repeat_together(nest, s, [env])
    else:
        _repeat_together(nest, s, envs)


def _repeat_together(nest: Nest, s: Repeat, envs: list[Env]) -> None:
    b = nest.b
    names = [n for name, value in s.carries for n in part_names(name, value.dtype)]
    start = [v for env in envs for _, value in s.carries for v in nest.all_lifted(value, env)]

    def going(values: list[Value]) -> list[tuple[Env, Value]]:
        out: list[tuple[Env, Value]] = []
        for k, env in enumerate(envs):
            inner = env.fork()
            for name, v in zip(names, values[k * len(names) :], strict=False):
                inner.define(name, v)
            on = nest.lifted(s.condition, inner)
            if env.mask is not None:
                on = b.bin("and", on, env.mask)
            out.append((inner, on))
        return out

    def test(values: list[Value]) -> Value:
        some: Value | None = None
        for _, on in going(values):
            some = on if some is None else b.bin("or", some, on)
        assert some is not None
        if some.type.lanes == 1:
            return some
        return b.put("call", I1, (some,), f"llvm.vector.reduce.or.{some.type.suffix}")

    def body(values: list[Value]) -> list[Value]:
        on = going(values)
        inner = [env for env, _ in on]
        for env, lanes in on:
            if lanes.type.lanes > 1:
                env.mask = lanes
        emit_body(nest, s.body, inner)
        new = [v for env in inner for value in s.next for v in nest.all_lifted(value, env)]
        if on[0][1].type.lanes == 1:
            return new
        active = [lanes for _, lanes in on for _ in names]
        return [b.select(a, v, old) for a, v, old in zip(active, new, values, strict=True)]

    last = b.repeat(start, test, body)
    for k, env in enumerate(envs):
        for name, v in zip(names, last[k * len(names) :], strict=False):
            env.define(name, v)


def _update(nest: Nest, s: Update, envs: list[Env]) -> None:
    emit.fold.combine_update(nest, s, envs)


def _fold(nest: Nest, s: Fold, envs: list[Env]) -> None:
    emit.fold.emit_fold(nest, s, envs, emit_body)


EMIT: Final[dict[type, Callable[[Nest, Any, list[Env]], None]]] = {
    Let: _let, Store: _store, Update: _update, For: _for, If: _if, Scan: _scan, Fold: _fold,
    Repeat: _repeat,
}  # fmt: skip
