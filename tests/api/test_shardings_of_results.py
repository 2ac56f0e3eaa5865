"""How results of computing on sharded arrays are spread: what JAX 0.10.2 shows on four devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import P, lax
from covector.sharding import NamedSharding, SingleDeviceSharding

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture(autouse=True)
def four_devices():
    cv.config.update("num_cpu_devices", 4)
    yield
    cv.config.update("num_cpu_devices", -1)


def arrays() -> dict[str, Any]:
    """Of a pmap; on a mesh of two by two, cut along both axes; along its second; copies."""
    mesh = cv.make_mesh((2, 2), ("a", "b"))
    return {
        "p": cv.pmap(lambda x: x * 2, "i")(X),
        "n": cv.device_put(X, NamedSharding(mesh, P("a", "b"))),
        "m": cv.device_put(X, NamedSharding(mesh, P("b"))),
        "r": cv.device_put(X, NamedSharding(mesh, P())),
        "f": cv.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b")),
    }


mapped = cv.pmap(cnp.sin, "i")
total = cv.pmap(lambda x: cnp.sin(x).sum(), "i")
THREE = np.stack([X] * 3)

CASES = {
    "p + 1": (lambda p, **_: p + 1, P("i")),
    "p + array": (lambda p, **_: p + X, P("i")),
    "-p": (lambda p, **_: -p, P("i")),
    "sin": (lambda p, **_: cnp.sin(p), P("i")),
    "p > 0": (lambda p, **_: p > 0, P("i")),
    "sum": (lambda p, **_: p.sum(), P()),
    "sum over devices": (lambda p, **_: p.sum(0), P()),
    "sum in devices": (lambda p, **_: p.sum(1), P("i")),
    "transpose": (lambda p, **_: p.T, P(None, "i")),
    "row": (lambda p, **_: p[0], P()),
    "column": (lambda p, **_: p[:, 0], P("i")),
    "part": (lambda p, **_: p[:2], P()),
    "reshape": (lambda p, **_: p.reshape(2, 12), P()),
    "astype": (lambda p, **_: p.astype("int32"), P("i")),
    "jit": (lambda p, **_: cv.jit(lambda x: cnp.cos(x) + 1)(p), P("i")),
    "jit of pmap": (lambda **_: cv.jit(mapped)(X), P("i")),
    "gradient of pmap": (lambda **_: cv.grad(lambda x: total(x).sum())(X), P("i")),
    "vjp of pmap": (lambda **_: cv.vjp(mapped, X)[1](np.ones_like(X))[0], P("i")),
    "value of vjp": (lambda **_: cv.vjp(mapped, X)[0], P("i")),
    "jvp of pmap": (lambda **_: cv.jvp(mapped, (X,), (X,))[1], P("i")),
    "vmap of pmap": (lambda **_: cv.vmap(mapped)(THREE), P(None, "i")),
    "vmap, last": (lambda **_: cv.vmap(mapped, out_axes=1)(THREE), P("i")),
    "n + 1": (lambda n, **_: n + 1, P("a", "b")),
    "n * n": (lambda n, **_: n * n, P("a", "b")),
    "n + m": (lambda n, m, **_: n + m, P(None, "b")),
    "n.sum(0)": (lambda n, **_: n.sum(0), P("b")),
    "n.sum(1)": (lambda n, **_: n.sum(1), P("a")),
    "n.T": (lambda n, **_: n.T, P("b", "a")),
    "n @ n.T": (lambda n, **_: n @ n.T, P("a")),
    "n[0]": (lambda n, **_: n[0], P("b")),
    "new axis": (lambda n, **_: n[:, None], P("a", None, "b")),
    "where": (lambda n, **_: cnp.where(n > 0, n, 0), P("a", "b")),
    "gradient": (lambda n, **_: cv.grad(lambda x: cnp.sin(x).sum())(n), P("a", "b")),
    "vmap": (lambda n, **_: cv.vmap(cnp.sin)(n), P("a", "b")),
    "concatenate": (lambda n, **_: cnp.concatenate([n, n]), P("a", "b")),
    "stack": (lambda n, **_: cnp.stack([n, n]), P(None, "a", "b")),
    "dot": (lambda n, **_: cnp.dot(n, np.ones(6, "float32")), P("a")),
    "cond": (
        lambda n, **_: cv.jit(lambda x: lax.cond(x[0, 0] > 0, cnp.sin, cnp.cos, x))(n),
        P("a", "b"),
    ),
    "loop": (
        lambda n, **_: cv.jit(lambda x: lax.fori_loop(0, 3, lambda k, c: c * 2, x))(n), P("a", "b"),
    ),
    "copies": (lambda r, **_: r + 1, P()),
    "shard_map": (lambda f, **_: f(X) + 1, P("a", "b")),
    "jit of shard_map": (lambda f, **_: cv.jit(lambda x: f(x) + 1)(X), P("a", "b")),
    "gradient of shard_map": (lambda f, **_: cv.grad(lambda x: f(x).sum())(X), P("a", "b")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_specs(name):
    """The first call, one that is learned, and those that run at once tell the same."""
    call, spec = CASES[name]
    given = arrays()
    for _ in range(4):
        out = call(**given)
        assert isinstance(out.sharding, NamedSharding)
        assert out.sharding.spec == spec
        assert out.sharding.num_devices == 4
        shards = out.addressable_shards
        assert [s.data.shape for s in shards] == [out.sharding.shard_shape(out.shape)] * 4
        for s in shards:
            np.testing.assert_array_equal(s.data, np.asarray(out)[s.index])


def test_one_device_that_somebody_chose():
    x = cv.device_put(X, cv.devices()[2])
    for _ in range(3):
        for out in (x + 1, cnp.sin(x).sum(), cv.jit(lambda x: x * 2)(x)):
            assert isinstance(out.sharding, SingleDeviceSharding)
            assert out.device == cv.devices()[2]
    assert not (cnp.asarray(X) + 1).committed


def test_devices_of_a_pmap_are_its_own():
    """Two pmaps over the same axis, of other devices."""
    first, last = cv.devices()[:2], cv.devices()[2:]
    f, g = (cv.pmap(lambda x: x + 1, "i", devices=d) for d in (first, last))
    for _ in range(3):
        assert f(X[:2]).sharding.device_set == set(first)
        assert g(X[:2]).sharding.device_set == set(last)
        assert (g(X[:2]) * 2).sharding.device_set == set(last)
