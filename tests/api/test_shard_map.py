"""`shard_map` on a mesh of 4 by 2 devices of one process; meshes, specs, shardings.

Expected numbers are those of JAX 0.10.2 on eight CPU devices.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import covector as cv
from covector import P, lax
from covector import numpy as cnp
from covector.sharding import AbstractMesh, DuplicateSpecError, Mesh, NamedSharding, get_mesh

Z = np.arange(32, dtype=np.float32).reshape(8, 4)
XY = ("x", "y")


@pytest.fixture(autouse=True)
def eight_devices():
    cv.config.update("num_cpu_devices", 8)
    yield
    cv.config.update("num_cpu_devices", -1)


def over(f, in_specs, out_specs, **options):
    """`f` over the mesh."""
    mesh = cv.make_mesh((4, 2), XY)
    return cv.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


FORWARD = {
    "psum": (lambda x: lax.psum(x, "y"), P("x", "y"), P("x"), [2, 4, 10, 12]),
    "pmax": (lambda x: lax.pmax(x, "x"), P("x"), P(), [24, 25, 26, 27]),
    "ppermute": (
        lambda x: lax.ppermute(x, "x", [(0, 1), (1, 0)]), P(*XY), P(*XY), [8, 9, 10, 11],
    ),
    "ppermute over two axes": (
        lambda x: lax.ppermute(x, XY, [(0, 7), (7, 0)]), P(*XY), P(*XY), [26, 27, 0, 0],
    ),
    "all_gather over two axes": (
        lambda x: lax.all_gather(x, XY, tiled=True) * 1.0, P(*XY), P(*XY), [0, 1, 0, 1],
    ),
    "psum_scatter over two axes": (
        lambda x: lax.psum_scatter(lax.all_gather(x, ("y", "x"), tiled=True), XY, tiled=True),
        P(*XY), P(*XY), [0, 8, 64, 72],
    ),
    "axis_index": (lambda x: lax.axis_index(XY)[None], P(), P(XY), [0, 1, 2, 3]),
    "pcast": (lambda x: lax.pcast(x, "y", to="varying"), P("x"), P(*XY), [0, 1, 2, 3]),
    "loop": (
        lambda x: lax.fori_loop(0, 3, lambda k, c: c + lax.psum(x, "x"), 0 * lax.psum(x, "x")),
        P(*XY), P(None, "y"), [144, 156, 168, 180],
    ),
    "unchecked": (lambda x: x[0, 0], P("x"), P(), [0]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FORWARD))
def test_values(name):
    body, in_specs, out_specs, first = FORWARD[name]
    f = over(body, in_specs, out_specs, check_vma=name != "unchecked")
    for got in (f(Z), cv.jit(f)(Z)):
        assert np.ravel(got)[:4].tolist() == first


def test_results_are_sharded_as_said():
    got = over(lambda x: x * 1, P(*XY), P(*XY))(Z)
    mesh = cv.make_mesh((4, 2), XY)
    assert got.sharding == NamedSharding(mesh, P(*XY))
    assert got.addressable_shards[3].data.tolist() == Z[2:4, 2:4].tolist()


#: Derivatives taken by each device: with check_vma that of the value all devices share.
LOSSES = {
    # name -> (loss of what all have and of a part, whether checked, gradient at 2.0 in JAX)
    "local sum": (lambda p, x: (p * x).sum(), True, 496.0),
    "sum over devices": (lambda p, x: lax.psum((p * x).sum(), XY) + p**3, True, 508.0),
    "mean over devices": (lambda p, x: lax.pmean((p * x).sum(), XY) + p**3, True, 74.0),
    "sum over one axis": (lambda p, x: lax.psum((p * x).sum(), "x"), True, 496.0),
    "all_gather": (lambda p, x: lax.all_gather(p * x, "x").sum(), True, 1984.0),
    "in a jit": (cv.jit(lambda p, x: (p * x).sum()), True, 496.0),
    "second": (
        cv.grad(lambda p, x: lax.psum((cnp.sin(p) * x).sum(), XY) * p), True, -1314.8407,
    ),
    "of a square of a gradient": (
        lambda p, x: cv.grad(lambda p: cnp.sin(p * x).sum())(p) ** 2, True, 3437.6296,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(LOSSES))
def test_derivatives_inside(name):
    loss, check, wanted = LOSSES[name]
    f = over(cv.grad(loss), (P(), P(*XY)), P(), check_vma=check)
    assert float(f(np.float32(2), Z)) == pytest.approx(wanted, rel=1e-5)
    back = over(lambda p, x: cv.vjp(loss, p, x)[1](np.float32(1))[0], (P(), P(*XY)), P())
    if name != "all_gather" and name != "local sum" and name != "in a jit":
        assert float(back(np.float32(2), Z)) == pytest.approx(wanted, rel=1e-5)


def _descent(p, x, steps=3):
    loss = lambda p: ((p * x) ** 2).sum()  # noqa: E731
    return lax.fori_loop(0, steps, lambda k, p: p - 0.01 * cv.grad(loss)(p), p)


IN_LOOPS = {
    "scan": (
        lambda p, x: lax.scan(
            lambda p, r: (p - 0.01 * cv.grad(lambda p: ((p * r) ** 2).sum())(p), p), p, x
        )[0], -0.07526394,
    ),
    "loop": (_descent, -2.541885),
    "mean": (
        lambda p, x: lax.fori_loop(0, 3, lambda k, p: p - 0.01 * cv.grad(
            lambda p: lax.pmean(((p * x) ** 2).sum(), XY))(p), p), 0.8091345,
    ),
    "while": (
        lambda p, x: lax.while_loop(
            lambda c: c[1] < 3, lambda c: (_descent(c[0], x, 1), c[1] + 1), (p, 0)
        )[0], -2.541885,
    ),
    "nested": (
        lambda p, x: lax.fori_loop(0, 2, lambda k, p: _descent(p, x, 2), p), 2.7533698,
    ),
    "branch": (
        lambda p, x: lax.cond(
            True, lambda p: cv.grad(lambda p: ((p * x) ** 2).sum())(p), lambda p: p, p
        ), 416.64001,
    ),
    "around": (
        lambda p, x: cv.grad(lambda p: lax.psum(
            (lax.fori_loop(0, 3, lambda k, q: cnp.sin(q * p), p) * x).sum(), XY))(p), 34.483707,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(IN_LOOPS))
def test_derivatives_in_and_around_loops(name):
    body, wanted = IN_LOOPS[name]
    f = over(body, (P(), P(*XY)), P())
    for got in (f(np.float32(2), Z / 10), cv.jit(f)(np.float32(2), Z / 10)):
        assert float(got) == pytest.approx(wanted, rel=1e-5)


def test_what_a_loop_makes_differ_differs_from_its_start():
    def f(p, x):
        def step(k, p):
            return p * x.sum() - 0.01 * cv.grad(lambda p: ((p * x) ** 2).sum())(p)

        return lax.fori_loop(0, 3, step, p)[None]

    got = over(f, (P(), P(*XY)), P(XY))(np.float32(2), Z / 10)
    np.testing.assert_allclose(got[:4], [1.9500221, 11.287108, 138.69099, 231.23036], rtol=1e-5)


def test_derivatives_by_what_is_said_to_vary_are_each_devices_own():
    def f(p, x):
        return cv.grad(lambda p: (p * x).sum())(lax.pcast(p, XY, to="varying"))[None]

    got = over(f, (P(), P(*XY)), P(XY))(np.float32(2), Z)
    assert got.tolist() == [10, 18, 42, 50, 74, 82, 106, 114]


def test_derivatives_inside_without_a_check_are_each_devices_own():
    alone = over(
        lambda p, x: cv.grad(lambda p: (p * x).sum())(p)[None], (P(), P(*XY)), P(XY),
        check_vma=False,
    )  # fmt: skip
    assert alone(np.float32(2), Z).tolist() == [10, 18, 42, 50, 74, 82, 106, 114]
    square = lambda x: lax.psum((x * x).sum(), XY)  # noqa: E731
    for check, factor in ((True, 2), (False, 16)):
        f = over(cv.grad(square), P(*XY), P(*XY), check_vma=check)
        np.testing.assert_array_equal(f(Z), factor * Z)


def test_derivatives_outside():
    total = over(lambda x: lax.psum(x * x, "x"), P(*XY), P(None, "y"))
    np.testing.assert_array_equal(cv.grad(lambda z: total(z).sum())(Z), 2 * Z)
    mixed = over(
        lambda p, x: cv.grad(lambda p: lax.psum((cnp.sin(p) * x).sum(), XY) * p)(p),
        (P(), P(*XY)), P(),
    )  # fmt: skip
    p = np.float32(2)
    assert float(cv.grad(mixed)(p, Z)) == pytest.approx(-1314.8407, rel=1e-5)
    wanted = np.sin(2.0) + 2 * np.cos(2.0)
    np.testing.assert_allclose(cv.grad(mixed, 1)(p, Z), np.full((8, 4), wanted), rtol=1e-5)
    pull = cv.jit(cv.vmap(cv.grad(mixed, 1), (0, None)))(np.array([2, 2], np.float32), Z)
    np.testing.assert_allclose(pull[1], np.full((8, 4), wanted), rtol=1e-5)
    wave = over(lambda x: cnp.sin(x), P(("y", "x")), P(("y", "x")))
    np.testing.assert_allclose(cv.jvp(wave, (Z,), (Z,))[1], Z * np.cos(Z), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(cv.linearize(wave, Z)[1](Z), Z * np.cos(Z), rtol=1e-5, atol=1e-5)


def test_residuals_that_all_devices_share_are_kept_once():
    def f(p, x):
        return cnp.sin(cnp.cos(p) * x)

    program = str(
        cv.make_jaxpr(lambda p: cv.vjp(over(f, (P(), P("x")), P("x")), p, Z)[1])(np.ones(4))
    )
    assert "f32[4] = sin" in program
    assert "out_specs=((('x',),), (), (('x',),), (), (('x',),))" in program


def test_vmap():
    f = over(lambda c, x: lax.psum(c * x, "y"), (P(), P(*XY)), P("x"))
    got = cv.vmap(f, (0, None))(np.arange(3, dtype=np.float32), Z)
    np.testing.assert_array_equal(got[2], 2 * f(np.float32(1), Z))
    hidden = cv.vmap(f, (0, None), axis_name="y")(np.arange(3, dtype=np.float32), Z)
    np.testing.assert_array_equal(hidden, got)  # the mesh axis is the nearer one
    outer = over(lambda x: x * lax.psum(1.0, "k") + lax.axis_index("k"), P("x"), P("x"))
    both = cv.vmap(outer, axis_name="k")(np.stack([Z, Z]))
    np.testing.assert_array_equal(both[1], 2 * Z + 1)


def test_mesh_in_force_and_specs_left_out():
    with cv.set_mesh(cv.make_mesh((4, 2), XY)) as mesh:
        assert get_mesh() is mesh
        placed = cv.device_put(Z, P("x"))
        f = cv.shard_map(lambda x: x.sum()[None], out_specs=P("x"))
        assert f(placed).tolist() == Z.reshape(4, -1).sum(1).tolist()
        g = cv.smap(lambda x: lax.psum(x, "x"), in_axes=0, out_axes=None, axis_name="x")
        np.testing.assert_array_equal(g(Z), Z.reshape(4, 2, 4).sum(0))
    assert get_mesh().empty
    part = over(lambda x: lax.psum(x, "x"), P("x"), P(), axis_names={"x"})
    np.testing.assert_array_equal(part(Z), Z.reshape(4, 2, 4).sum(0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: over(lambda x: x, P(*XY), P("x"))(Z), ValueError,
         r"require replication which can't be statically inferred.*result 0 is P\('x',\)"),
        (lambda: over(lambda x: lax.all_gather(x, "x", tiled=True), P("x"), P())(Z), ValueError,
         "may differ there"),
        (lambda: over(lambda x: x, P(*XY), P(*XY))(Z[:7]), ValueError,
         "not evenly divisible.*array axis 0.*size 7.*mesh axis 'x'.*4 does not evenly divide 7"),
        (lambda: over(lambda x: x, P(*XY), P(*XY))(Z[:, 0]), ValueError, "in_specs.*too long"),
        (lambda: over(lambda x: x[0, 0], P(*XY), P(*XY))(Z), ValueError, "out_specs.*too long"),
        (lambda: over(lambda x: x, P("q"), P())(Z), ValueError, "refers to 'q'"),
        (lambda: over(lambda x: x, P(), P("q"))(Z), ValueError, "out_specs.*refers to 'q'"),
        (lambda: over(lambda x: x, P("x", "x"), P())(Z), ValueError, "for two array axes"),
        (lambda: over(lambda x, y: x, (P(),), P())(Z, Z), ValueError, "shard_map in_specs"),
        (lambda: over(lambda x: x, P(), (P(), P()))(Z), ValueError, "shard_map out_specs"),
        (lambda: over(lambda x: x, "x", P())(Z), TypeError, "tree of PartitionSpec; got 'x'"),
        (lambda: over(lambda x: x, P(), P(), axis_names={"q"})(Z), ValueError, "has not"),
        (lambda: cv.shard_map(lambda x: x, out_specs=P())(Z), ValueError, "mesh cannot be empty"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# Derivatives in functions that are traced by themselves

W = np.float32(0.7)
V = np.arange(8, dtype=np.float32)


def _loss(w, v):
    return lax.psum(cnp.sin(w * v).sum(), "x")


def _local(w, v):
    return cnp.sin(w * v).sum()


#: Functions of a number that all devices have and a vector that is cut; of the numbers that JAX
#: 0.10.2 gives on four devices, the last, or all of a result that is the same for all.
CHECKPOINTED = {
    "gradient": (cv.checkpoint(lambda w, v: cv.grad(_loss)(w, v) * v), -73.4784),
    "of a part": (cv.checkpoint(lambda w, v: cv.grad(_local)(w, v) * v), -73.4784),
    "by the vector": (cv.checkpoint(cv.grad(_loss, 1)), 0.1306),
    "in a branch": (
        lambda w, v: lax.cond(w > 0, cv.checkpoint(lambda v: cv.grad(_local)(w, v) * v),
                              lambda v: v, v), -73.4784,
    ),
    "in a loop": (
        lambda w, v: v * 0 + lax.scan(
            lambda c, _: (c + cv.checkpoint(lambda w: cv.grad(_loss)(w, v))(w), None),
            w * 0, None, length=2)[0], -20.9938,
    ),
    "in a batch": (
        lambda w, v: cv.vmap(cv.checkpoint(lambda v: cv.grad(lambda w: cnp.sin(w * v))(w)))(v),
        -4.1264,
    ),
    "twice": (lambda w, v: v * 0 + cv.grad(lambda w: cv.checkpoint(cv.grad(_loss))(w, v))(w),
              70.5718),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_derivatives_inside_a_checkpoint(name):
    fun, wanted = CHECKPOINTED[name]
    mesh = cv.make_mesh((4,), ("x",))
    mapped = cv.shard_map(fun, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"))
    np.testing.assert_allclose(mapped(W, V)[-1], wanted, atol=1e-4)
    np.testing.assert_allclose(cv.jit(mapped)(W, V)[-1], wanted, atol=1e-4)


def _product(backward):
    f = cv.custom_vjp(lambda w, v: cnp.sin(w * v))
    f.defvjp(lambda w, v: (f(w, v), (w, v)), backward)
    return f


def _share(r, ct):
    return cnp.cos(r[0] * r[1]) * r[1] * ct


#: What a user's rule gives as the cotangent of a number that all devices have: the whole of it, by
#: a collective or otherwise, or each device its part.
WHOLE = {
    "by vjp": (lambda r, ct: cv.vjp(lambda w, v: cnp.sin(w * v), *r)[1](ct), -10.4969),
    "summed": (lambda r, ct: (lax.psum(_share(r, ct).sum(), "x"), ct), -10.4969),
    "parts": (lambda r, ct: (_share(r, ct).sum(), ct), -10.4969),
    "known": (lambda r, ct: (r[0], ct), 0.7),
    "constant": (lambda r, ct: (cnp.float32(1), ct), 1.0),
}


@pytest.mark.parametrize("name", WHOLE)
def test_rules_see_whole_cotangents(name):
    backward, wanted = WHOLE[name]
    f = _product(backward)

    def gradient(w, v):
        return cv.grad(lambda w: lax.psum(f(w, v).sum(), "x"))(w)

    mesh = cv.make_mesh((4,), ("x",))
    mapped = cv.shard_map(gradient, mesh=mesh, in_specs=(P(), P("x")), out_specs=P())
    np.testing.assert_allclose(mapped(W, V), wanted, rtol=1e-5)
    np.testing.assert_allclose(cv.jit(mapped)(W, V), wanted, rtol=1e-5)
    outside = cv.shard_map(
        lambda w, v: lax.psum(f(w, v).sum(), "x"), mesh=mesh, in_specs=(P(), P("x")), out_specs=P()
    )
    np.testing.assert_allclose(cv.grad(outside)(W, V), wanted, rtol=1e-5)


def test_rules_in_forward_mode():
    """The transpose of a rule that sums over devices."""
    f = _product(lambda r, ct: (lax.psum(_share(r, ct).sum(), "x"), ct * r[0]))
    mesh = cv.make_mesh((4,), ("x",))
    mapped = cv.shard_map(
        lambda w, v: cv.jvp(lambda w: f(w, v), (w,), (cnp.ones_like(w),))[1],
        mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"),
    )  # fmt: skip
    np.testing.assert_allclose(mapped(W, V), np.cos(W * V) * V, rtol=1e-5)


# Loops that devices run apart


def _states(w, x):
    """A recurrent layer's gradient, averaged: loops, then a collective."""

    def loss(w):
        step = lambda h, row: (cnp.tanh(h @ w + row), None)  # noqa: E731
        return (lax.scan(step, cnp.zeros(x.shape[1:], x.dtype), x)[0] ** 2).mean()

    return w - lax.pmean(cv.grad(loss)(w), "i")


def test_loops_are_run_by_each_device_apart():
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(32, 32)) * 0.1, rng.normal(size=(8, 60, 16, 32))
    w, x = w.astype("float32"), x.astype("float32")
    step = cv.pmap(_states, "i", in_axes=(None, 0))
    text = step.lower(w, x).as_text("kernels")
    assert "loop 8 times in 8 ranges" in text
    assert "loop 60 times" in text
    wanted = cv.vmap(_states, axis_name="i", in_axes=(None, 0))(w, x)
    np.testing.assert_allclose(step(w, x), wanted, rtol=1e-4, atol=1e-6)
    small = cv.pmap(_states, "i", in_axes=(None, 0)).lower(w[:2, :2], x[:, :5, :1, :2])
    assert "ranges" not in small.as_text("kernels")


def test_loops_apart_on_a_mesh_of_two_axes():
    """Devices along one axis run apart, along both; shared matrices; a jit around the loop."""
    w = np.eye(64, dtype="float32") * 0.5
    x = np.random.default_rng(1).normal(size=(8, 4, 100, 16, 64)).astype("float32")

    def local(w, x):
        run = cv.jit(lambda x: lax.scan(lambda h, r: (cnp.sin(h @ w + r), None), x[0], x)[0])
        return lax.psum(cv.vmap(cv.vmap(run))(x), "y").sum((0, 1))

    def run(x, w):
        return lax.scan(lambda h, r: (cnp.sin(h @ w + r), None), x[0], x)[0]

    found = over(local, (P(), P(*XY)), P("x"))(w, x)
    wanted = np.asarray(cv.vmap(cv.vmap(lambda x: run(x, w)))(x)).reshape(4, 2, 4, 16, 64)
    np.testing.assert_allclose(found.reshape(4, 16, 64), wanted.sum((1, 2)), rtol=1e-4, atol=1e-5)


# The values


def test_partition_specs():
    assert repr(P("x", None, ("x", "y"))) == "P('x', None, ('x', 'y'))"
    assert P(("x",)) == P("x")
    assert P() != P(None)
    assert P("x") != P("x", None)
    assert P(None, "x") + P("y") == P(None, "x", "y")
    assert (tuple(P("x", "y")), len(P("x")), P("x")[0]) == (("x", "y"), 1, "x")
    assert pickle.loads(pickle.dumps(P("x"))) == P("x")
    assert cv.tree.leaves({"a": P("x")}) == [P("x")]


def test_meshes():
    mesh = cv.make_mesh((4, 2), XY)
    assert repr(mesh) == ("Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Auto))")
    assert (mesh.shape, mesh.size, mesh.empty) == ({"x": 4, "y": 2}, 8, False)
    assert mesh.device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh == cv.make_mesh((4, 2), XY)
    assert mesh.abstract_mesh == AbstractMesh((4, 2), XY)
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    for call, message in (
        (lambda: Mesh(cv.devices(), XY), "devices.ndim == 1 and len.axis_names. == 2"),
        (lambda: Mesh([cv.devices()[0]] * 2, ("x",)), "must not come twice"),
        (lambda: cv.make_mesh((30, 2), XY), "Number of devices 8 must be >= the product"),
        (lambda: AbstractMesh((4, 2), ("x",)), "one size for each axis"),
        (lambda: cv.make_mesh((2, 2), ("x", "x")), "axis_names must differ"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_named_shardings():
    mesh = cv.make_mesh((4, 2), XY)
    s = NamedSharding(mesh, P("y"))
    x = cv.device_put(Z, s)
    assert x.sharding == s
    assert (s.shard_shape((8, 4)), s.num_devices, s.is_fully_replicated) == ((4, 4), 8, False)
    assert s.replicated_axes == {"x"}
    shards = x.addressable_shards
    assert [(h.device.id, h.index[0].start, h.replica_id) for h in shards[:4]] == [
        (0, 0, 0), (1, 4, 0), (2, 0, 1), (3, 4, 1),
    ]  # fmt: skip
    assert all(h.data.tolist() == Z[h.index].tolist() for h in shards)
    assert x.devices() == set(cv.devices())
    assert NamedSharding(mesh, P()).is_fully_replicated
    assert NamedSharding(mesh, P("x")).is_equivalent_to(NamedSharding(mesh, P("x", None)), 2)
    for call, error, message in (
        (lambda: cv.device_put(Z[:6], NamedSharding(mesh, P("x"))), ValueError,
         "array axis 0 is partitioned 4 times, but does not evenly divide the dimension size 6"),
        (lambda: cv.device_put(Z[0], NamedSharding(mesh, P("x", "y"))), ValueError, "at least 2"),
        (lambda: NamedSharding(mesh, P("z")), ValueError, "z of P.'z',. is not found in mesh"),
        (lambda: NamedSharding(mesh, P("x", "x")), DuplicateSpecError, "duplicate entries for `x`"),
        (lambda: NamedSharding(mesh, "x"), TypeError, "must be a PartitionSpec"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()


def test_arrays_from_parts():
    s = NamedSharding(cv.make_mesh((4, 2), XY), P(*XY))
    x = cv.make_array_from_callback((8, 4), s, lambda index: Z[index])
    assert (x.tolist(), x.sharding) == (Z.tolist(), s)
    parts = [h.data for h in x.addressable_shards]
    again = cv.make_array_from_single_device_arrays((8, 4), s, parts)
    assert again.tolist() == Z.tolist()
    with pytest.raises(ValueError, match=r"must be of shape \(2, 2\)"):
        cv.make_array_from_callback((8, 4), s, lambda index: Z)
    with pytest.raises(ValueError, match="one array for each of the 8 devices; got 1"):
        cv.make_array_from_single_device_arrays((8, 4), s, parts[:1])


def test_device_put_of_a_tree():
    first, second = cv.devices()[:2]
    got = cv.device_put({"a": 1.0, "b": (2, 3)}, {"a": second, "b": first})
    assert got["a"].devices() == {second}
    assert got["b"][1].devices() == {first}
