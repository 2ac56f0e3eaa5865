"""`pmap` on eight devices of one process: values, sharding, derivatives, composition, errors.

Expected numbers are those of JAX 0.10.2 on eight CPU devices.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import covector as cv
from covector import lax
from covector import numpy as cnp

X = np.arange(4, dtype=np.float32)
Y = np.arange(32, dtype=np.float32).reshape(4, 4, 2)


@pytest.fixture(autouse=True)
def eight_devices():
    cv.config.update("num_cpu_devices", 8)
    yield
    cv.config.update("num_cpu_devices", -1)


COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), [6, 6, 6, 6]),
    "pmean": (lambda x: lax.pmean(x, "i"), [1.5] * 4),
    "pmax": (lambda x: lax.pmax(x, "i"), [3] * 4),
    "pmin": (lambda x: lax.pmin(x, "i"), [0] * 4),
    "axis_index": (lambda x: lax.axis_index("i"), [0, 1, 2, 3]),
    "axis_size": (lambda x: x * lax.axis_size("i"), [0, 4, 8, 12]),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), [0, 0, 1, 0]),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [1, 0, 3, 2]), [1, 0, 3, 2]),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 2), [2, 2, 2, 2]),
    "all_gather": (lambda x: lax.all_gather(x, "i"), [[0, 1, 2, 3]] * 4),
    "psum in groups": (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), [1, 1, 5, 5],
    ),
    "all_gather in groups": (
        lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 2], [1, 3]]),
        [[0, 2], [1, 3], [0, 2], [1, 3]],
    ),
    "gradient": (cv.grad(lambda x: lax.psum(x * x, "i")), [0, 8, 16, 24]),
    "gradient of all_gather": (
        cv.grad(lambda x: (lax.all_gather(x, "i") * cnp.arange(4)).sum()), [0, 4, 8, 12],
    ),
    "gradient of what all have": (
        lambda x: cv.grad(lambda w: lax.psum(w * x, "i"))(2.0), [0, 4, 8, 12],
    ),
    "loop": (
        lambda x: lax.scan(lambda c, z: (c + lax.psum(c * x, "i"), c), 1.0, cnp.arange(3.0))[0],
        [343] * 4,
    ),
    "loop that ends at different times": (
        lambda x: lax.while_loop(lambda x: x < 30, lambda x: x * 2 + 1, x), [31, 31, 47, 31],
    ),
    "branch": (lambda x: lax.cond(x > 1, lambda x: x * 2, lambda x: x, x), [0, 1, 4, 6]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(COLLECTIVES))
def test_collectives(name):
    body, wanted = COLLECTIVES[name]
    np.testing.assert_allclose(cv.pmap(body, axis_name="i")(X), wanted)


MOVES = {
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), (4, 2, 4), [0, 8, 16, 24]),
    "all_to_all, tiled": (
        lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), (4, 1, 8), [0, 1, 8, 9],
    ),
    "all_to_all in groups": (
        lambda x: lax.all_to_all(x[:2], "i", 0, 1, axis_index_groups=[[0, 2], [1, 3]]),
        (4, 2, 2), [0, 16, 1, 17],
    ),
    "all_gather, tiled": (
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True), (4, 4, 8), [0, 1, 8, 9],
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), (4, 2), [48, 52, 56, 60]),
    "psum_scatter in groups": (
        lambda x: lax.psum_scatter(x[:2], "i", axis_index_groups=[[0, 1], [2, 3]]),
        (4, 2), [8, 10, 12, 14],
    ),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "i", 0), (4, 4, 2), [0, 1, 8, 9]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MOVES))
def test_moves_and_their_derivatives(name):
    body, shape, first = MOVES[name]
    mapped = cv.pmap(body, axis_name="i")
    got = mapped(Y)
    assert got.shape == shape
    assert np.ravel(got)[:4].tolist() == first
    # Linear: the gradient of <w, f(x)> at any x is the transpose of w.
    w = np.sin(np.arange(got.size, dtype=np.float32)).reshape(shape)
    back = cv.grad(lambda y: (mapped(y) * w).sum())(Y)
    np.testing.assert_allclose(np.sum(back * Y), np.sum(w * got), rtol=1e-5)


def test_axes():
    assert cv.pmap(lambda x, y: x + y, in_axes=(0, None))(X, 1.0).tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(cv.pmap(lambda x: x, in_axes=1)(Y), np.moveaxis(Y, 1, 0))
    np.testing.assert_array_equal(cv.pmap(lambda x: x, out_axes=-1)(Y), np.moveaxis(Y, 0, 2))
    total = cv.pmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)(X)
    assert (total.shape, float(total)) == ((), 6.0)
    tree = cv.pmap(lambda d: {"q": d["a"] + d["b"][0]}, in_axes=({"a": 0, "b": None},))
    assert tree({"a": X, "b": (1.0,)})["q"].tolist() == [1, 2, 3, 4]
    assert cv.pmap(lambda x, k: x + k)(X, k=X).tolist() == [0, 2, 4, 6]
    assert cv.pmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)().tolist() == [0, 1, 2]


def test_static_and_donated_arguments():
    power = cv.pmap(lambda n, x: x**n, static_broadcasted_argnums=0, donate_argnums=())
    assert power(3, X).tolist() == [0, 1, 8, 27]
    assert power(2, X).tolist() == [0, 1, 4, 9]
    times = cv.pmap(lambda x, n: x * n, in_axes=(0, None), static_broadcasted_argnums=-1)
    assert times(X, 3).tolist() == [0, 3, 6, 9]


def test_results_are_spread_over_the_devices():
    out = cv.pmap(lambda x: x + 1)(Y)
    assert isinstance(out.sharding, cv.NamedSharding)
    assert out.devices() == set(cv.devices()[:4])
    shards = out.addressable_shards
    assert [s.device.id for s in shards] == [0, 1, 2, 3]
    assert [s.index for s in shards] == [
        (slice(k, k + 1), slice(None), slice(None)) for k in range(4)
    ]
    assert shards[2].data.tolist() == (Y[2:3] + 1).tolist()
    assert shards[2].data.devices() == {cv.devices()[2]}
    last = cv.pmap(lambda x: x, devices=cv.devices()[6:])(X[:2])
    assert last.devices() == set(cv.devices()[6:])
    everywhere = cv.pmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)(X)
    assert everywhere.is_fully_replicated
    assert [s.replica_id for s in everywhere.addressable_shards] == [0, 1, 2, 3]


def test_one_buffer_whatever_the_sharding():
    x = cv.device_put(Y, cv.NamedSharding(cv.make_mesh((4,), ("i",)), cv.P("i")))
    assert x.unsafe_buffer_pointer() == cv.device_put(x, cv.devices()[3]).unsafe_buffer_pointer()


def test_in_and_around_other_transformations():
    square = X[:, None] * X
    got = cv.pmap(cv.vmap(cv.jit(cv.grad(cnp.sin))))(square)
    np.testing.assert_allclose(got, np.cos(square), rtol=1e-5, atol=1e-6)
    total = cv.pmap(lambda x: lax.psum(x * x, "i"), axis_name="i")
    assert cv.grad(lambda x: total(x).sum())(X).tolist() == [0, 8, 16, 24]
    assert cv.jit(total)(X).tolist() == [14] * 4
    np.testing.assert_allclose(cv.vmap(total)(square), np.sum(square**2, 1, keepdims=True) + 0 * X)
    value, tangent = cv.jvp(total, (X,), (np.ones_like(X),))
    assert (value.tolist(), tangent.tolist()) == ([14] * 4, [12] * 4)
    second = cv.grad(lambda w: cv.grad(lambda w: total(cnp.sin(w) * X).sum())(w))(0.5)
    assert float(second) == pytest.approx(4 * 14 * 2 * np.cos(1.0), rel=1e-5)
    nested = cv.pmap(cv.pmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")
    assert nested(square[:2, :3]).tolist() == [[3] * 3] * 2
    assert "shard_map[" in str(cv.make_jaxpr(total)(X))
    assert "stablehlo.reduce" in total.lower(X).as_text("stablehlo")


def test_data_parallel_training():
    """One step of descent: each device its part of the data, the mean of the gradients."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((8, 4, 3), (8, 4)))
    w = np.ones(3, np.float32)
    loss = lambda w, x, y: ((x @ w - y) ** 2).mean()  # noqa: E731

    def step(w, x, y):
        return w - 0.1 * lax.pmean(cv.grad(loss)(w, x, y), "data")

    got = cv.pmap(step, axis_name="data", in_axes=(None, 0, 0), out_axes=None)(w, x, y)
    wanted = w - 0.1 * cv.grad(loss)(w, x.reshape(32, 3), y.reshape(32))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cv.pmap(lambda x: x)(np.zeros(16)), ValueError,
         r"requires 16 devices.*only 8 devices are available.*num_cpu_devices"),
        (lambda: cv.pmap(lambda x: x, devices=cv.devices()[:2])(X), ValueError, "requires 4.*2"),
        (lambda: cv.pmap(lambda x, y: x)(X, X[:3]), ValueError, "inconsistent sizes"),
        (lambda: cv.pmap(lambda x: {"a": "no"})(X), TypeError, "result of pmap of <lambda>.*'a'"),
        (lambda: cv.pmap(lambda: 1)(), ValueError, "at least one non-None value"),
        (lambda: cv.pmap(lambda x: x)(1.0), ValueError, "pmap of <lambda>.*rank should be"),
        (lambda: cv.pmap(lambda x: x, in_axes="i"), TypeError, "pmap in_axes must be"),
        (lambda: cv.pmap(lambda x: x, in_axes=(0, 0))(X), ValueError, "got 2 entries for 1"),
        (lambda: cv.pmap(lambda x: x, out_axes=2)(X), ValueError, "out_axes=2 is out of bounds"),
        (lambda: cv.pmap(lambda x: lax.psum(x, "k"), axis_name="i")(X), NameError,
         r"unbound axis name: k.*'i' \(of size 4\)"),
        (lambda: cv.pmap(lambda n, x: x, in_axes=(1, 0), static_broadcasted_argnums=0), ValueError,
         "static argument 0 must be None"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_number_of_devices_may_change_and_comes_from_the_environment():
    assert [str(d) for d in cv.devices()] == [f"cpu:{k}" for k in range(8)]
    assert (cv.device_count(), cv.local_device_count(), cv.process_count()) == (8, 8, 1)
    first = cv.devices()[0]
    cv.config.update("jax_num_cpu_devices", 2)
    assert cv.local_devices() == cv.devices()[:2]
    assert cv.devices()[0] is first
    program = "import covector; print(covector.local_device_count())"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "COVECTOR_NUM_CPU_DEVICES": "3"},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "3"
