"""`jit`: what is traced when, static arguments, methods, pytrees, captured arrays, caches."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import jit

Pair = namedtuple("Pair", ["left", "right"])


class Counter:
    """Counts how often a function's body runs."""

    def __init__(self, fun: Any) -> None:
        self.fun, self.count = fun, 0
        functools.update_wrapper(self, fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.fun(*args, **kwargs)


def test_traces_once_per_type() -> None:
    body = Counter(lambda x: x + 1)
    f = jit(body)
    for x in (1.0, 2.0, cnp.float32(3), cnp.ones(2), cnp.ones(2), 1, 2):
        np.testing.assert_array_equal(f(x), np.asarray(x) + 1)
    assert body.count == 4  # weak float, float32, float32[2], weak int


def test_two_jits_of_one_function_share_its_traces() -> None:
    body = Counter(lambda x: x * 2)
    assert jit(body)(3.0) == jit(body)(3.0) == 6.0
    assert body.count == 1


def test_static_arguments_are_values() -> None:
    body = Counter(lambda x, n: x**n)
    f = jit(body, static_argnums=1)
    assert f(2.0, 3) == 8.0
    assert f(2.0, 2) == 4.0
    assert f(3.0, 3) == 27.0
    assert body.count == 2
    assert f(3.0, n=3) == 27.0  # by name, since the signature tells it
    g = jit(lambda x, *, mode: x if mode == "same" else -x, static_argnames="mode")
    assert g(1.0, mode="same") == 1.0
    assert g(1.0, mode="other") == -1.0


def test_static_values_of_equal_hash_and_another_type_are_kept_apart() -> None:
    f = jit(lambda x, n: x * n, static_argnums=1)
    assert f(cnp.arange(2), True).dtype == np.int32
    assert f(cnp.arange(2), 1).dtype == np.int32
    assert f(cnp.arange(2), 1.0).dtype == np.float32


def test_pytrees_in_and_out() -> None:
    @jit
    def f(tree: Any, *, scale: Any) -> Any:
        return {"sum": tree["a"] + tree["b"][0], "pair": Pair(tree["b"][1] * scale, None)}

    tree = {"b": (cnp.ones(2), 3.0), "a": cnp.zeros(2)}
    for _ in range(3):
        out = f(tree, scale=2.0)
        assert isinstance(out["pair"], Pair)
        assert out["pair"].left == 6.0
        assert out["pair"].right is None
        np.testing.assert_array_equal(out["sum"], [1, 1])


def test_methods_decorators_and_partial() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = 3.0

        @functools.partial(jit, static_argnums=0)
        def __call__(self, x: Any) -> Any:
            return self.weight * x

        @staticmethod
        @jit
        def double(x: Any) -> Any:
            return 2 * x

    assert Model()(2.0) == 6.0
    assert Model.double(2.0) == 4.0
    assert jit(functools.partial(lambda a, b: a - b, 10.0))(4.0) == 6.0

    @jit
    def named(x: Any) -> Any:
        """Has a docstring."""
        return x

    assert named.__name__ == "named"
    assert named.__doc__ == "Has a docstring."


def test_captured_arrays_are_arguments_of_the_program() -> None:
    captured = cnp.arange(1000.0)
    f = jit(lambda x: x + captured)
    program = f.lower(1.0).jaxpr
    assert not program.consts
    assert [a.shape for a in program.in_avals] == [(1000,), ()]
    np.testing.assert_array_equal(f(1.0), np.arange(1000.0) + 1)


def test_captured_numpy_arrays_are_read_when_traced() -> None:
    captured = np.ones(3, np.float32)
    f = jit(lambda x: x + captured)
    np.testing.assert_array_equal(f(1.0), [2, 2, 2])
    captured[:] = 5
    np.testing.assert_array_equal(f(1.0), [2, 2, 2])


def test_a_closure_over_a_tracer_is_traced_for_each() -> None:
    def outer(x: Any) -> Any:
        return jit(lambda y: y * x)(2.0)

    assert cv.grad(outer)(3.0) == 2.0
    assert jit(outer)(3.0) == 6.0
    np.testing.assert_array_equal(cv.vmap(outer)(cnp.arange(3.0)), [0, 2, 4])


def test_nested_jit_inside_every_transformation() -> None:
    inner = jit(lambda x: cnp.sin(x) * x)
    x = 0.7
    wanted = cv.grad(lambda x: cnp.sin(x) * x)(x)
    for f in (cv.grad(inner), jit(cv.grad(inner)), cv.grad(jit(inner)), jit(jit(cv.grad(inner)))):
        np.testing.assert_allclose(f(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(
        cv.vmap(cv.grad(inner))(cnp.array([x, x])), [wanted, wanted], rtol=1e-6
    )


def test_disable_jit_runs_python() -> None:
    seen = []

    @jit
    def f(x: Any) -> Any:
        seen.append(float(x))
        return x

    with cv.disable_jit():
        f(2.0)
    assert seen == [2.0]
    with pytest.raises(cv.errors.ConcretizationTypeError):
        f(2.0)


def test_options_are_part_of_the_key() -> None:
    f = jit(lambda: cnp.arange(2.0))
    assert f().dtype == np.float32
    with cv.enable_x64(True):
        assert f().dtype == np.float64
    assert f().dtype == np.float32


def test_clear_cache_forgets() -> None:
    body = Counter(lambda x: x + 1)
    f = jit(body)
    f(1.0)
    f.clear_cache()
    assert f(1.0) == 2.0
    assert body.count == 2
    cv.clear_caches()
    assert f(1.0) == 2.0
    assert body.count == 3


def test_a_function_and_its_programs_can_die() -> None:
    def f(x: Any) -> Any:
        return x + 1

    g = jit(f)
    g(1.0)
    gone = weakref.ref(f)
    del f, g
    gc.collect()
    assert gone() is None


def test_lower_and_compile_ahead_of_time() -> None:
    f = jit(lambda x: cnp.sin(x) + 1)
    lowered = f.lower(cv.ShapeDtypeStruct((3,), "float32"))
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(cnp.zeros(3)), [1, 1, 1])
    assert lowered.out_info.shape == (3,)
    with pytest.raises(TypeError, match=r"f32\[3\].*f32\[4\]"):
        compiled(cnp.zeros(4))
    for stage in ("jaxpr", "simplified", "kernels", "llvm", "assembly"):
        assert lowered.as_text(stage)
    with pytest.raises(ValueError, match="kernels"):
        lowered.as_text("nonsense")


def test_threads_may_call_and_trace_at_once() -> None:
    body = Counter(lambda x: cnp.sin(x) * 2)
    f = jit(body)
    wrong: list[Any] = []

    def work(k: int) -> None:
        for n in range(1, 20):
            got = f(cnp.full(n % 5 + 1, float(k)))
            if not np.allclose(got, 2 * np.sin(float(k)), rtol=1e-5):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert body.count == 5


def test_no_arguments_and_no_results() -> None:
    assert jit(lambda: ())() == ()
    assert jit(lambda x: None)(1.0) is None
    assert jit(lambda: 3.0)() == 3.0
    x = cnp.ones(2)
    np.testing.assert_array_equal(jit(lambda x: x)(x), x)
