"""The trace cache: equal fresh functions share programs, and no result is ever stale."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import gc
import itertools
import random
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import jit, lax
from covector.api import jit as jit_module
from covector.backends.cpu.backend import CpuBackend
from covector.ir.interpret import evaluate
from covector.lax import _carry
from covector.trace import cache

scale = 1.0
weights = np.ones(3, np.float32)
settings: dict[str, Any] = {"rate": 1.0, "steps": [1, 2]}
xs = cnp.arange(5.0)


class Counts:
    """Traces and compilations since the start of the test."""

    def __init__(self) -> None:
        self.traces = self.compiled = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    cv.clear_caches()
    found = Counts()
    compile_ = CpuBackend.compile

    def counted(trace: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            found.traces += 1
            return trace(*args, **kwargs)

        return call

    def compiles(self: Any, program: Any, *args: Any) -> Any:
        found.compiled += 1
        return compile_(self, program, *args)

    for module in (jit_module, _carry):
        monkeypatch.setattr(module, "trace_to_jaxpr", counted(module.trace_to_jaxpr))
    monkeypatch.setattr(CpuBackend, "compile", compiles)
    return found


def _scan(k: int) -> Any:
    w = cnp.float32(k)
    return lax.scan(lambda c, x: (c + x * w, None), cnp.float32(0), xs)[0]


def _while(k: int) -> Any:
    step = cnp.float32(k + 1)
    return lax.while_loop(lambda c: c < 1000.0, lambda c: c + step, cnp.float32(0))


def _fori(k: int) -> Any:
    w = cnp.float32(k)
    return lax.fori_loop(0, 4, lambda i, c: c + w, cnp.float32(0))


def _cond(k: int) -> Any:
    w = cnp.float32(k)
    return lax.cond(xs[1] > 0, lambda x: x + w, lambda x: x - w, cnp.float32(0))


def _switch(k: int) -> Any:
    w = cnp.float32(k)
    branches = [lambda x: x, lambda x: x + w, lambda x: x * 2]
    return lax.switch(cnp.int32(1), branches, cnp.float32(0))


def _map(k: int) -> Any:
    w = cnp.float32(k)
    return lax.map(lambda x: x * w, xs)[1]


@pytest.mark.parametrize(
    ("loop", "bodies", "wanted"),
    [
        (_scan, 1, lambda k: 10.0 * k),
        (_while, 2, lambda k: (k + 1) * np.ceil(1000 / (k + 1))),
        (_fori, 1, lambda k: 4.0 * k),
        (_cond, 2, float),
        (_switch, 3, float),
        (_map, 1, float),
    ],
)
def test_a_thousand_fresh_closures_trace_once_and_compile_once(
    counts: Counts, loop: Any, bodies: int, wanted: Any
) -> None:
    assert loop(0) == wanted(0)
    assert counts.traces == bodies
    compiled = counts.compiled
    results = [loop(k) for k in range(1, 1000)]
    assert counts.traces == bodies
    assert counts.compiled == compiled
    for k in (1, 17, 999):
        assert results[k - 1] == wanted(k)


def test_inside_jit_too(counts: Counts) -> None:
    def program(k: int) -> Any:
        w = cnp.float32(k)

        @jit
        def run(init: Any) -> Any:
            return lax.scan(lambda c, x: (c + x * w * init, None), cnp.float32(0), xs)[0]

        return run

    assert program(1)(1.0) == 10.0
    assert counts.traces == 2
    assert program(2)(2.0) == 40.0
    assert counts.traces == 2


def test_a_body_over_tracers_of_two_functions_is_traced_once(counts: Counts) -> None:
    def total(w: Any) -> Any:
        return lax.scan(lambda c, x: (c + x * w, None), cnp.float32(0), xs)[0]

    first, second = jit(lambda w: total(w)), jit(lambda w: total(2 * w) + 1)
    assert first(cnp.float32(1)) == 10.0
    assert second(cnp.float32(1)) == 21.0
    assert counts.traces == 3
    # Another kind of tracer is another body, which may ask what it is.
    assert cv.grad(total)(cnp.float32(1)) == 10.0
    np.testing.assert_array_equal(cv.vmap(total)(cnp.arange(2.0)), [0, 10])


def test_fresh_jits_share(counts: Counts) -> None:
    for k in range(100):
        w = cnp.float32(k)
        assert jit(lambda x, w=w: x + w)(cnp.float32(1)) == k + 1
    assert counts.traces == 1
    assert counts.compiled <= 1


def test_options_of_jit_keep_programs_apart(counts: Counts) -> None:
    def fresh() -> Any:
        return lambda x, n: x * n

    assert jit(fresh())(2.0, 3) == 6.0
    assert jit(fresh(), static_argnums=1)(2.0, 3) == 6.0
    assert jit(fresh(), static_argnums=1)(2.0, 4) == 8.0
    assert jit(fresh(), static_argnums=1)(2.0, 4) == 8.0
    assert counts.traces == 3


def test_a_changed_global_gives_the_new_result(counts: Counts) -> None:
    global scale
    loops = [
        lambda: lax.scan(lambda c, x: (c + scale * x, None), cnp.float32(0), xs)[0],
        lambda: lax.fori_loop(0, 10, lambda i, c: c + scale, 0.0),
        lambda: lax.while_loop(lambda c: c < 10 * scale, lambda c: c + scale, 0.0),
        lambda: lax.cond(True, lambda: 10 * scale, lambda: scale),
        lambda: jit(lambda x: x * scale)(10.0),
    ]
    for loop in loops:
        for value in (1.0, 3.0, 1.0):
            scale = value
            assert loop() == 10 * value
    scale = 1.0
    assert counts.traces < 25  # the third value is the first again


def test_a_changed_global_of_a_function_that_is_called(counts: Counts) -> None:
    global scale

    def inner(x: Any) -> Any:
        return helper(x)

    for value in (1.0, 2.0):
        scale = value
        assert jit(lambda x: inner(x) + 1)(3.0) == 3 * value + 1
    scale = 1.0
    assert counts.traces == 2


def helper(x: Any) -> Any:
    return x * scale


def test_minus_zero_and_types_are_told_apart() -> None:
    def divided(z: Any) -> Any:
        return jit(lambda x: x / z)(cnp.float32(1))

    assert divided(0.0) == np.inf
    assert divided(-0.0) == -np.inf
    assert divided(np.float32(-0.0)) == -np.inf
    assert jit(lambda x, n=True: x + n)(cnp.int32(1)).dtype == np.int32
    assert jit(lambda x, n=1.0: x + n)(cnp.int32(1)).dtype == np.float32


def test_what_a_captured_value_holds_is_compared(counts: Counts) -> None:
    def loop(w: Any) -> Any:
        return lax.fori_loop(0, 2, lambda i, c: c + _total(w), 0.0)

    assert [loop(w) for w in ([1.0], [1.0], (1.0,), {"a": 1.0}, [2.0])] == [2, 2, 2, 2, 4]
    assert counts.traces == 4
    settings["rate"] = 1.0
    first = jit(lambda x: x * settings["rate"])(2.0)
    settings["rate"] = 5.0
    assert (first, jit(lambda x: x * settings["rate"])(2.0)) == (2.0, 10.0)


def _total(w: Any) -> Any:
    return sum(cv.tree_util.tree_leaves(w))


def test_numpy_arrays_are_compared_by_their_elements(counts: Counts) -> None:
    def total() -> Any:
        return jit(lambda x: x + float(np.sum(weights)))(1.0)

    weights[:] = 1
    assert total() == total() == 4.0
    assert counts.traces == 1
    weights[0] = 5
    assert total() == 8.0
    weights[:] = 1


def test_captured_trees_of_arrays_are_arguments(counts: Counts) -> None:
    class Pair(NamedTuple):
        left: Any
        right: Any

    def loop(params: Any) -> Any:
        return lax.scan(lambda c, x: (c + x * _total(params), None), 0.0, xs)[0]

    for k in range(1, 4):
        pair = Pair({"w": cnp.float32(k)}, [cnp.float32(1)])
        assert loop(pair) == 10.0 * (k + 1)
    assert counts.traces <= 2


def test_the_same_array_twice_is_not_two_arrays(counts: Counts) -> None:
    def loop(a: Any, b: Any) -> Any:
        return jit(lambda x: x + 1 if a is b else x + a + b)(cnp.float32(1))

    one, other = cnp.float32(5), cnp.float32(7)
    assert (loop(one, one), loop(one, other), loop(other, one)) == (2, 13, 13)
    assert counts.traces == 2


READS: list[Callable[[Any], Any]] = [
    float, int, bool, np.asarray, lambda x: x.item(), lambda x: x.tolist(), lambda x: str(x),
    lambda x: range(5)[x.astype(int)] if x.dtype == int else range(5)[int(x)],
    lambda x: float(next(iter(x[None]))) if x.ndim else x.__float__(),
    lambda x: np.add(x, 0),
]  # fmt: skip


@pytest.mark.parametrize("read", READS, ids=range(len(READS)))
def test_an_array_that_is_looked_at_counts_by_identity(counts: Counts, read: Any) -> None:
    def loop(a: Any, b: Any) -> Any:
        def body(x: Any) -> Any:
            seen = read(a)
            return x + b + (float(seen) if not isinstance(seen, str) else 0 * len(seen))

        return jit(body)(cnp.float32(1))

    a, b = cnp.float32(1), cnp.float32(10)
    counted = 0 if read is READS[6] else 1
    assert loop(a, b) == 11 + counted
    traces = counts.traces
    assert loop(a, cnp.float32(20)) == 21 + counted  # `b` is an argument still
    assert counts.traces == traces
    assert loop(cnp.float32(3), b) == (11 if not counted else 12 if read is bool else 14)
    assert counts.traces > traces


def test_looked_at_by_an_iteration() -> None:
    def total(a: Any) -> Any:
        return jit(lambda x: x + sum([float(v) for v in a]))(1.0)

    assert total(cnp.arange(3.0)) == 4.0
    assert total(cnp.arange(3.0) + 1) == 7.0


def test_looked_at_at_compile_time() -> None:
    def total(a: Any) -> Any:
        def body(x: Any) -> Any:
            with cv.ensure_compile_time_eval():
                twice = a * 2
            return x + int(twice)

        return jit(body)(1)

    assert [int(total(cnp.int32(k))) for k in (1, 2, 1)] == [3, 5, 3]


class _World:
    """Everything that random functions read, and how each thing may change."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.number, self.flag, self.name = 1.0, True, "a"
        self.items: list[Any] = [1.0, (2.0, [3.0])]
        self.named: dict[str, Any] = {"a": 1.0, "b": {"c": 2.0}}
        self.numpy = np.ones(3, np.float32)
        self.array, self.other = cnp.float32(1), cnp.float32(2)
        self.model, self.config = Model(1.0), Config(1.0)
        self.function: Any = lambda x: x + self.number

    def change(self) -> None:
        """Changes one thing, to one of few values, so that states come again."""
        value = float(self.rng.randrange(3))

        def other_function() -> None:
            self.function = lambda x, k=value: x * k + self.number

        def other_config() -> None:
            self.config = Config(value)

        self.rng.choice(
            [
                lambda: setattr(self, "number", value),
                lambda: setattr(self, "flag", value > 0),
                lambda: setattr(self, "name", "ab"[value > 0]),
                lambda: self.items.__setitem__(0, value),
                lambda: self.items[1][1].__setitem__(0, value),
                lambda: self.named.__setitem__("a", value),
                lambda: self.named["b"].__setitem__("c", value),
                lambda: self.numpy.__setitem__(1, value),
                lambda: setattr(self, "array", cnp.float32(value)),
                lambda: setattr(self, "other", self.array),
                lambda: setattr(self, "other", cnp.float32(value + 1)),
                lambda: setattr(self.model, "w", value),
                lambda: setattr(Model, "bias", value),
                other_function,
                other_config,
            ]
        )()

    def function_of(self, choices: list[int]) -> Any:
        """A fresh function that reads some of it, in another way each."""
        array, other, model, numbers = self.array, self.other, self.model, self.numpy

        parts = [
            lambda x: x + self.number,
            lambda x: x * 2 if self.flag else -x,
            lambda x: x + self.named[self.name if self.name == "a" else "a"],
            lambda x: x + self.items[0] + self.items[1][1][0],
            lambda x: x + self.named["b"]["c"],
            lambda x: x + numbers[1],
            lambda x: x + array * other,
            lambda x: x if array is other else x + 1,
            lambda x: model.step(x) + model.double,
            lambda x: self.function(x),
            lambda x: self.config.scaled(x),
            lambda x: x + float(other),
            lambda x: x + scale,
        ]
        chosen = [parts[c % len(parts)] for c in choices]

        def body(x: Any) -> Any:
            for part in chosen:
                x = part(x)
            return x

        return body


@pytest.mark.parametrize("seed", range(8))
def test_random_functions_in_a_changing_world(counts: Counts, seed: int) -> None:
    rng = random.Random(seed)
    world = _World(rng)
    choices = [[rng.randrange(13) for _ in range(rng.randrange(1, 5))] for _ in range(4)]
    steps = 100
    try:
        for _ in range(steps):
            world.change()
            which = rng.choice(choices)
            aval = cv.typeof(np.float32(0))
            program, _ = _carry.run_flat(world.function_of(which), (0.0,), [aval])
            consts = [np.asarray(c) for c in program.consts]
            (got,) = evaluate(program.jaxpr, consts, [np.float32(1.5)])
            wanted = world.function_of(which)(np.float32(1.5))
            np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-5)
    finally:
        Model.bias = 0.0
    assert counts.traces < steps  # and yet some were shared


def test_what_cannot_be_compared_is_traced_each_time(counts: Counts) -> None:
    def loop(numbers: Iterator[float]) -> Any:
        return lax.fori_loop(0, 2, lambda i, c: c + next(numbers), 0.0)

    assert [loop(iter([1.0])), loop(iter([2.0]))] == [2, 4]
    rng = np.random.default_rng(0)
    draws = {float(jit(lambda x: x + rng.uniform())(1.0)) for _ in range(3)}
    assert len(draws) == 3


IMPURE = {
    "a number of NumPy's generator": lambda x: x + np.random.uniform(),  # noqa: NPY002
    "the same, of a module taken apart": lambda x: x + _taken_apart(np),
    "a number of Python's generator": lambda x: x + random.random(),
    "a generator of one's own": lambda x: x + _generator.random(),
    "the time": lambda x: x + time.perf_counter() % 1,
    "an import inside": lambda x: x + _importing(),
    "a context variable": lambda x: x + _variable.get(),
    "a counter": lambda x: x + next(_counter),
    "an attribute of a function": lambda x: x + _count_up(),
    "a hidden global": lambda x: x + globals()["_hidden"],
    "an object with attributes on demand": lambda x: x + _on_demand.value,
    "an attribute by name": lambda x: x + getattr(_plain_object, "value"),  # noqa: B009
    "an item": lambda x: x + _nested["a"][0].value,
    "a property": lambda x: x + _plain_object.computed,
    "a class attribute through an instance": lambda x: x + _plain_object.shared,
    "a default": lambda x, box=[0.0]: x + box[0],
}  # fmt: skip


class _OnDemand:
    def __getattr__(self, name: str) -> float:
        return _hidden


class _Plain:
    shared = 0.0

    def __init__(self) -> None:
        self.value = 0.0

    @property
    def computed(self) -> float:
        return self.value + _hidden


_hidden = 0.0
_generator = random.Random(0)
_counter = itertools.count(1)
_variable: contextvars.ContextVar[int] = contextvars.ContextVar("_variable", default=1)
_on_demand, _plain_object = _OnDemand(), _Plain()
_nested = {"a": (_plain_object,)}


def _taken_apart(module: Any) -> float:
    return module.random.uniform()


def _importing() -> float:
    import numpy as np

    return np.random.uniform()  # noqa: NPY002


def _count_up() -> float:
    _count_up.calls += 1  # type: ignore[attr-defined]
    return _count_up.calls  # type: ignore[attr-defined]


_count_up.calls = 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", IMPURE)
def test_results_of_impure_functions_are_those_of_fresh_traces(what: str) -> None:
    """As in a world without the cache: what changed since is in the result."""
    global _hidden
    body = IMPURE[what]
    results = set()
    for _ in range(3):
        fresh = types.FunctionType(
            body.__code__, globals(), "fresh", body.__defaults__, body.__closure__
        )
        results.add(float(jit(fresh)(0.0)))
        _hidden += 1.0
        _plain_object.value += 1.0
        _Plain.shared += 1.0
        _variable.set(_variable.get() + 1)
        for box in body.__defaults__ or ():
            box[0] += 1.0
    assert len(results) == 3


def test_a_function_that_changes_what_it_reads_is_not_shared() -> None:
    seen: list[Any] = []
    for _ in range(3):
        lax.fori_loop(0, 2, lambda i, c: (seen.append(1), c + 1)[1], 0.0)
    assert len(seen) >= 3


def test_one_function_object_is_traced_once_whatever_it_reads(counts: Counts) -> None:
    calls: list[int] = []

    def body(c: Any, x: Any) -> Any:
        calls.append(1)
        return c + x, None

    for _ in range(3):
        assert lax.scan(body, cnp.float32(0), xs)[0] == 10.0
    assert counts.traces == 3  # it changes `calls`: nobody can tell that it would do the same

    stream = iter(range(100))

    def other(c: Any, x: Any) -> Any:
        return c + x + 0 * next(stream), None

    before = counts.traces
    for _ in range(3):
        lax.scan(other, cnp.float32(0), xs)
    assert counts.traces == before + 1


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float
    sizes: tuple[int, ...] = (1,)

    def scaled(self, x: Any) -> Any:
        return x * self.rate


class Model:
    bias = 0.0

    def __init__(self, w: float) -> None:
        self.w, self.unused = w, object()

    @property
    def double(self) -> float:
        return 2 * self.w

    def step(self, c: Any) -> Any:
        return c + self.w + self.bias

    def loop(self) -> Any:
        return lax.fori_loop(0, 2, lambda i, c: self.step(c) + self.double, 0.0)

    def __call__(self, x: Any) -> Any:
        return x * self.w


def test_objects_count_by_what_is_read_of_them(counts: Counts) -> None:
    model = Model(1.0)
    assert (model.loop(), Model(1.0).loop()) == (6.0, 6.0)
    assert counts.traces == 1
    model.w = 2.0
    assert model.loop() == 12.0
    Model.bias = 1.0
    assert model.loop() == 14.0
    Model.bias = 0.0
    assert [jit(lambda x, c=c: c.scaled(x))(2.0) for c in (Config(1.0), Config(3.0))] == [2, 6]


class Deep(Model):
    def step(self, c: Any) -> Any:
        return super().step(c) + 1

    @classmethod
    def made(cls) -> float:
        return cls.bias


def test_what_super_reads(counts: Counts) -> None:
    model = Deep(1.0)
    assert model.loop() == 8.0
    model.w = 2.0
    assert model.loop() == 14.0
    Model.bias = 1.0
    assert model.loop() == 16.0
    first = jit(lambda x: x + Deep.made())(0.0)
    Model.bias = 0.0
    assert (first, jit(lambda x: x + Deep.made())(0.0)) == (1.0, 0.0)


def test_custom_rules(counts: Counts) -> None:
    def slope(factor: float) -> Any:
        @cv.custom_jvp
        def f(x: Any) -> Any:
            return x * 1.0

        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * factor))
        return jit(lambda x: cv.grad(lambda y: f(y))(x))(1.0)

    assert [slope(k) for k in (1.0, 2.0, 1.0)] == [1, 2, 1]


def test_callable_objects_and_partials(counts: Counts) -> None:
    def apply(f: Any) -> Any:
        return jit(lambda x: f(x))(3.0)

    assert [apply(Model(k)) for k in (1.0, 2.0)] == [3, 6]
    assert [apply(functools.partial(lambda a, b: a * b, k)) for k in (1.0, 2.0)] == [3, 6]
    assert [apply(Model(k).__call__) for k in (1.0, 2.0)] == [3, 6]
    assert [apply(jit(lambda x, k=k: x * k)) for k in (1.0, 2.0)] == [3, 6]
    assert [apply(cv.grad(lambda x, k=k: x * k)) for k in (1.0, 2.0)] == [1, 2]
    assert [apply(cv.checkpoint(lambda x, k=k: x * k)) for k in (1.0, 2.0)] == [3, 6]


def test_an_attribute_of_a_static_argument(counts: Counts) -> None:
    model = Model(1.0)

    def call() -> Any:
        return jit(lambda m, x: m.w * x, static_argnums=0)(model, 2.0)

    assert call() == 2.0
    model.w = 5.0
    assert call() == 10.0


def test_a_method_of_a_pytree_class_reads_a_global() -> None:
    global scale

    @cv.tree_util.register_pytree_node_class
    class State:
        def __init__(self, x: Any) -> None:
            self.x = x

        def tree_flatten(self) -> Any:
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(*children)

        def next(self) -> Any:
            return State(self.x + scale)

    def loop() -> Any:
        return lax.fori_loop(0, 2, lambda i, s: s.next(), State(0.0)).x

    scale = 1.0
    first = loop()
    scale = 5.0
    assert (first, loop()) == (2.0, 10.0)
    scale = 1.0


def test_a_tree_whose_metadata_have_no_hash() -> None:
    @cv.tree_util.register_pytree_node_class
    class Noted:
        def __init__(self, x: Any, notes: list[str]) -> None:
            self.x, self.notes = x, notes

        def tree_flatten(self) -> Any:
            return (self.x,), self.notes

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(*children, aux)

    def loop(k: float) -> Any:
        return lax.fori_loop(0, 2, lambda i, s: Noted(s.x + k, s.notes), Noted(0.0, ["a"])).x

    assert [loop(1.0), loop(2.0)] == [2, 4]


def test_transformations_in_a_body(counts: Counts) -> None:
    def loop(k: float) -> Any:
        w = cnp.float32(k)
        return lax.fori_loop(0, 2, lambda i, c: c + cv.grad(lambda v: v * v * w)(c), 1.0)

    assert [loop(k) for k in (1.0, 2.0)] == [9.0, 25.0]
    assert counts.traces <= 2


def test_named_axes_are_part_of_the_key() -> None:
    def total(x: Any) -> Any:
        return lax.cond(x > -1, lambda: lax.psum(x, "i"), lambda: x)

    x = cnp.arange(3.0)
    np.testing.assert_array_equal(cv.vmap(total, axis_name="i")(x), [3, 3, 3])
    np.testing.assert_array_equal(cv.vmap(total, axis_name="i")(x[:2]), [1, 1])


def test_options_are_part_of_the_key() -> None:
    def loop() -> Any:
        return lax.fori_loop(0, 1, lambda i, c: c + cnp.arange(2.0)[1], 0.0)

    assert loop().dtype == np.float32
    with cv.enable_x64(True):
        assert loop().dtype == np.float64
    assert loop().dtype == np.float32


def test_clear_caches_empties_it(counts: Counts) -> None:
    _scan(1)
    assert cache.size() > 0
    cv.clear_caches()
    assert cache.size() == 0
    before = counts.traces
    _scan(1)
    assert counts.traces == before + 1


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cv.clear_caches()
    monkeypatch.setattr(cache, "KEPT", 8)
    for k in range(20):
        assert jit(lambda x, k=k: x + k)(1) == k + 1
    assert cache.size() <= 8


def test_captured_arrays_and_functions_can_die() -> None:
    def make() -> tuple[Any, Any]:
        array = cnp.ones(1000)
        body = lambda c: c + array[0]  # noqa: E731
        lax.fori_loop(0, 2, lambda i, c: body(c), 0.0)
        jit(lambda x: x + array)(1.0)
        stream = iter([1.0])
        same = lambda c, x: (c + next(stream), None)  # noqa: E731
        lax.scan(same, 0.0, xs)
        return weakref.ref(array), weakref.ref(same)

    refs = make()
    gc.collect()
    assert [r() for r in refs] == [None, None]


def test_arrays_are_as_before_when_a_trace_ends() -> None:
    a, b = cnp.ones(3), cnp.ones(3)
    kind = type(a.buffer)
    jit(lambda x: x + a)(1.0)
    with pytest.raises(ZeroDivisionError):
        jit(lambda x: x + b + 1 / 0)(1.0)
    inner = lambda x: lax.fori_loop(0, 2, lambda i, c: c + a[0] + float(b[1]), x)  # noqa: E731
    with pytest.raises(cv.errors.ConcretizationTypeError):
        jit(lambda x: inner(x))(1.0)
    assert type(a.buffer) is type(b.buffer) is kind
    gone = cnp.ones(3)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jit(lambda x: x + gone)(1.0)


def test_other_threads_use_an_array_that_is_watched() -> None:
    shared = cnp.arange(4.0)
    inside, wrong = threading.Event(), []

    def use() -> None:
        inside.wait(10)
        for _ in range(200):
            if float(shared.sum()) != 6.0 or shared.tolist() != [0, 1, 2, 3]:
                wrong.append(1)

    thread = threading.Thread(target=use)
    thread.start()
    for k in range(20):
        inside.set()
        assert jit(lambda x, k=k: (x + shared + k)[1])(1.0) == k + 2
    thread.join()
    assert not wrong
    assert shared.tolist() == [0, 1, 2, 3]


def test_a_function_keeps_so_many_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_module, "TRACES", 4)
    f = jit(lambda x, n: x + n, static_argnums=1)
    for n in range(10):
        assert f(1, n) == n + 1
    assert f._cache_size() == 4
    assert f(1, 0) == 1


def test_threads_share_it() -> None:
    cv.clear_caches()
    wrong: list[Any] = []

    def work(k: int) -> None:
        for n in range(30):
            if _scan(n) != 10.0 * n or _fori(k) != 4.0 * k:
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
