"""Products in micro-scaling formats: beside the oracle, NumPy's formula, and what they refuse.

The oracle multiplies scaled matrices on GPUs only, so that one step of its programs is replaced by
the formula that it documents; how operands and cotangents are quantised is its own.
"""

import inspect
import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax, nn
from tests.oracle import given, once

E4M3, E5M2, E8M0, FP4 = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn,
)
ROWS = ((1,), (1,)), ((), ())


def normal(*shape, seed=0, spread=0.0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp(spread * rng.normal(size=shape))).astype(dtype)


def formula(a, b, s, u):
    a, b, s, u = (np.asarray(x).astype(np.float64) for x in (a, b, s, u))
    a = a * np.repeat(s, a.shape[-1] // s.shape[-1], -1)
    b = b * np.repeat(u, b.shape[-1] // u.shape[-1], -1)
    return np.einsum("bmk,bnk->bmn", a, b)


def oracle(jax, function, *args):
    """`function(*args)` by the oracle, its scaled products by `formula`."""

    def run(jaxpr, consts, args):
        values = dict(zip(jaxpr.constvars, consts, strict=True))
        values |= dict(zip(jaxpr.invars, args, strict=True))

        def read(v):
            return v.val if hasattr(v, "val") else values[v]

        for e in jaxpr.eqns:
            given = [read(v) for v in e.invars]
            inner = e.params.get("jaxpr", e.params.get("call_jaxpr"))
            if e.primitive.name == "scaled_matmul_wrapper":
                out = formula(*given).astype(e.params["preferred_element_type"])
                outs = [jax.numpy.asarray(out)]
            elif inner is not None:
                outs = run(inner.jaxpr, inner.consts, given)
            else:
                out = e.primitive.bind(*given, **e.params)
                outs = out if e.primitive.multiple_results else [out]
            values.update(zip(e.outvars, outs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def constants(jaxpr, consts):
        for e in jaxpr.eqns:
            inner = e.params.get("jaxpr", e.params.get("call_jaxpr"))
            consts = consts if inner is None else [*consts, *constants(inner.jaxpr, inner.consts)]
        return consts

    args = [jax.numpy.asarray(x) for x in args]
    closed = jax.make_jaxpr(function)(*args)
    text = re.sub(r" at 0x\w+", "", f"{inspect.getsource(formula)} {closed}")
    known = [*constants(closed.jaxpr, closed.consts), *args]
    ask = lambda: run(closed.jaxpr, closed.consts, args)  # noqa: E731
    return once("api", text, known, closed.out_avals, ask)


@pytest.mark.parametrize(
    ("data", "scales", "block", "out"),
    [(E4M3, E8M0, 32, "float32"), (E5M2, E8M0, 16, "bfloat16"), (FP4, E4M3, 16, "float16"),
     ("float32", "float32", 64, "float32"), ("int8", "float32", 1, "float32")],
)  # fmt: skip
def test_scaled_matmul(data, scales, block, out, assert_close):
    a, b = (2 * normal(2, 3, 64, seed=3)).astype(data), (2 * normal(2, 5, 64)).astype(data)
    s = np.abs(normal(2, a.shape[1], 64 // block, seed=7)).astype(scales)
    u = np.abs(normal(2, 5, 64 // block, seed=8)).astype(scales)
    got = nn.scaled_matmul(a, b, s, u, preferred_element_type=out)
    wanted = formula(a, b, s, u).astype(ml_dtypes.bfloat16 if out == "bfloat16" else out)
    assert_close(got, wanted, rtol=1e-5 if out == "float32" else 1e-2, atol=1e-4)


def test_scaled_matmul_is_an_ordinary_function(assert_close):
    a, b, s, u = normal(2, 3, 8), normal(2, 4, 8, seed=1), normal(2, 3, 2), normal(2, 4, 2)
    whole = nn.scaled_matmul(a, b, s, u)
    assert_close(cv.jit(nn.scaled_matmul)(a, b, s, u), np.asarray(whole))
    stacked = cv.vmap(nn.scaled_matmul, in_axes=(0, None, 0, None))(
        np.stack([a, 2 * a]), b, np.stack([s, s]), u
    )
    assert_close(stacked, np.stack([whole, 2 * np.asarray(whole)]), atol=1e-5)
    got = cv.grad(lambda *v: nn.scaled_matmul(*v).sum(), (0, 2))(a, b, s, u)
    wide = np.repeat(s, 4, -1)
    pulled = (b * np.repeat(u, 4, -1)).sum(1, keepdims=True)
    wanted = wide * pulled, (a * pulled).reshape(2, 3, 2, 4).sum(-1)
    assert_close(got, wanted, rtol=1e-4, atol=1e-5)


X = np.ones((2, 4, 8), np.float32)


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ((X[0], X[0], X[0], X[0]), ValueError, "rank 3"),
        ((X, X[:1], X, X[:1]), ValueError, "agree in B and K"),
        ((X, X[..., :4], X, X[..., :4]), ValueError, "agree in B and K"),
        ((X, X, X[..., :3], X), ValueError, "lhs_scales"),
        ((X, X, X, np.ones((2, 3, 8))), ValueError, "rhs_scales"),
        ((X, X, X, X[..., :0]), ValueError, "rhs_scales"),
        ((X, X, X, X[..., :4]), ValueError, "as many blocks.*got 8 and 4"),
        ((X, X, X, X, None), ValueError, "preferred_element_type"),
        ((X, X, X, X, "foo"), TypeError, "foo"),
        ((X * 1j, X, X, X), TypeError, "lhs must have real numbers"),
        (([[[1.0]]], X, X, X), TypeError, "lhs must be an array"),
    ],
)
def test_scaled_matmul_refuses(args, error, match):
    with pytest.raises(error, match=match):
        nn.scaled_matmul(*args)


def configs(lib, modes, scale=None):
    return [lib.nn.get_scaled_dot_general_config(mode, scale) for mode in modes]


@pytest.mark.parametrize(
    ("modes", "scale"),
    [
        (("mxfp8",) * 3, None),
        (("nvfp4",) * 3, np.float32([0.25])),
        (("mxfp8", "nvfp4", "mxfp8"), None),
    ],
)
def test_values_and_gradients(modes, scale, jax, assert_close):
    a, b, w = normal(32, 64, spread=2), normal(32, 64, seed=1), normal(32, 32, seed=2)

    def results(lib):
        def product(a, b):
            return lib.nn.scaled_dot_general(a, b, ROWS, configs=configs(lib, modes, scale))

        def both(a, b):
            grads = lib.grad(lambda a, b: (w * product(a, b)).sum(), (0, 1))(a, b)
            return product(a, b), *grads

        return both

    a[0, :2] = 1e5, -3000  # nvfp4 saturates; what is saturated has no gradient
    got = results(cv)(a, b)
    assert_close(got, oracle(jax, results(jax), a, b), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (0.5, 2.0, 1e-3)])
def test_nvfp4_has_no_gradient_beyond_its_range(scales, jax, assert_close):
    a, b, w = normal(3, 48, spread=2), normal(2, 48, seed=1), normal(3, 2, seed=2)
    edges = np.float32([2687, 2688, np.nextafter(np.float32(2688), np.inf), 1e6, np.inf, np.nan])
    known = np.float32([1, 1, 0, 0, 0, 0])
    inside = [np.ones_like(a), np.ones_like(b)]
    for x, mask, scale in zip((a, b), inside, scales, strict=False):
        x[1, 10:16], x[0, 30:36] = scale * edges, -scale * edges
        mask[1, 10:16] = mask[0, 30:36] = known

    def grads(lib):
        three = [lib.nn.get_scaled_dot_general_config("nvfp4", np.float32([s])) for s in scales]

        def loss(a, b):
            return (w * lib.nn.scaled_dot_general(a, b, ROWS, configs=three)).sum()

        return lambda a, b: lib.grad(loss, (0, 1))(a, b)

    # Each side by itself: what isn't finite on one has no part in the other's gradient.
    for k, (x, mask) in enumerate(zip((a, b), inside, strict=True)):
        args = (x, normal(2, 48, seed=1)) if k == 0 else (normal(3, 48, seed=4), x)
        got = grads(cv)(*args)[k]
        product = (w if k == 0 else w.T) @ args[1 - k]
        assert_close(got, product * mask, rtol=1e-5, atol=1e-5)
        assert_close(got, oracle(jax, grads(jax), *args)[k], rtol=1e-5, atol=1e-5)


def test_range_of_formats_that_are_mixed(assert_close):
    a, b = normal(3, 32), normal(2, 32, seed=1)
    a[0, 3] = b[1, 5] = 1e5
    mixed = configs(cv, ["mxfp8", "nvfp4", "nvfp4"])
    got = cv.grad(lambda a, b: nn.scaled_dot_general(a, b, ROWS, configs=mixed).sum(), (0, 1))(a, b)
    wanted = [np.tile(b.sum(0), (3, 1)), np.tile(a.sum(0), (2, 1))]
    wanted[1][1, 5] = 0  # mxfp8 does not saturate
    assert_close(got, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode", ["nvfp4"])
@pytest.mark.parametrize(
    ("shapes", "numbers"),
    [
        (((4, 2, 32), (2, 32, 3)), (((1, 2), (0, 1)), ((), ()))),
        (((5, 6, 4, 32), (3, 5, 32, 6)), (((3,), (2,)), ((0, 1), (1, 3)))),
    ],
)
def test_axes(mode, shapes, numbers, jax, assert_close):
    args = [normal(*shape, seed=k, spread=1) for k, shape in enumerate(shapes)]

    def product(lib):
        return lambda a, b: lib.nn.scaled_dot_general(
            a, b, numbers, "bfloat16" if lib is cv else jax.numpy.bfloat16, configs(lib, [mode] * 3)
        )

    assert_close(product(cv)(*args), oracle(jax, product(jax), *args)[0], rtol=1e-2, atol=1e-2)


def quantised(x, block, data, scales):
    """NumPy's formula, for whole blocks; `x` as the format has it."""
    blocks = x.astype(np.float64).reshape(-1, block)
    top, most = np.abs(blocks).max(-1, keepdims=True), float(ml_dtypes.finfo(data).max)
    if scales is E8M0:
        scale = 2.0 ** np.maximum(np.ceil(np.log2(np.maximum(top, 1e-300) / most)), -127)
    else:
        top = np.minimum(top / most, float(ml_dtypes.finfo(scales).max))
        scale = top.astype(np.float32).astype(scales).astype(np.float64)
    with np.errstate(all="ignore"):
        parts = np.where(scale > 0, np.clip(blocks / scale, -most, most), 0)
    return (parts.astype(np.float32).astype(data).astype(np.float64) * scale).reshape(x.shape)


@pytest.mark.parametrize("k", [20])
@pytest.mark.parametrize(
    ("mode", "block", "data", "scales"), [("mxfp8", 32, E4M3, E8M0), ("nvfp4", 16, FP4, E4M3)]
)
def test_short_blocks_and_zeros(k, mode, block, data, scales, assert_close):
    a = normal(6, k, spread=3)
    a[1], a[2] = 0, 1e-38 if mode == "mxfp8" else 1e-3
    eye, modes = np.eye(k, dtype=np.float32), [mode] * 3
    got = nn.scaled_dot_general(a, eye, ROWS, configs=configs(cv, modes))
    padded = np.zeros((6, -(-k // block) * block), np.float32)
    padded[:, :k] = a
    one = 1.0 if mode == "mxfp8" else 6 * 0.171875  # the nearest scale of a block with a 1
    wanted = quantised(padded, block, data, scales)[:, :k] * one
    assert_close(got, wanted.astype(np.float32), rtol=1e-5, atol=1e-38)


def test_infinities_and_nans():
    a = np.ones((3, 32), np.float32)
    a[1, 3], a[2, 5] = np.inf, np.nan
    eights, fours = (
        np.asarray(nn.scaled_dot_general(a, a[:1], ROWS, configs=configs(cv, [mode] * 3)))
        for mode in ("mxfp8", "nvfp4")
    )
    assert eights[0] == 32
    assert np.isnan(eights[1:]).all()
    assert np.isfinite(fours[:2]).all()
    assert np.isnan(fours[2])


def test_gradients_of_any_length_and_type(assert_close):
    config = configs(cv, ["mxfp8"] * 3)
    a, b = np.float32([[1, 2, 3]]), np.ones((2, 3), np.int32)
    a = a.astype(ml_dtypes.bfloat16)
    got = cv.grad(lambda a: nn.scaled_dot_general(a, b, ROWS, configs=config).sum())(a)
    assert_close(got, np.full((1, 3), 2, ml_dtypes.bfloat16))
    second = cv.grad(
        lambda x: cv.grad(lambda x: nn.scaled_dot_general(x, x, ROWS, configs=config).sum())(
            x
        ).sum()
    )(np.ones((1, 4), np.float32))
    assert_close(second, np.full((1, 4), 2, np.float32))
    examples = np.stack([np.eye(4, dtype=np.float32), 2 * np.eye(4, dtype=np.float32)])
    stacked = cv.vmap(lambda x: nn.scaled_dot_general(x, x, ROWS, configs=config))(examples)
    assert_close(stacked, examples**2)


def test_axes_in_any_order(assert_close):
    a, b = np.zeros((2, 2, 32), np.float32), np.zeros((32, 2, 3), np.float32)
    a[1, 0, 5], b[5, 0, 2] = 4, 2
    a[0, 1, 7], b[7, 1, 0] = 8, 1
    for contract in (((1, 2), (1, 0)), ((2, 1), (0, 1))):
        numbers = contract, ((), ())
        got = nn.scaled_dot_general(a, b, numbers, configs=configs(cv, ["mxfp8"] * 3))
        assert_close(got, np.asarray(lax.dot_general(a, b, numbers)))


def test_configs(jax):
    for mode, scale in itertools.product(("mxfp8", "nvfp4"), (None, 2.0)):
        ours, theirs = (lib.nn.get_scaled_dot_general_config(mode, scale) for lib in (cv, jax))
        for name in ("mode", "block_size", "data_type", "scale_type", "global_scale", "infer_only"):
            assert np.all(np.asarray(getattr(ours, name)) == np.asarray(getattr(theirs, name)))
    with pytest.raises(ValueError, match="mode must be one of mxfp8, nvfp4"):
        nn.get_scaled_dot_general_config("mxfp6")
    with pytest.raises(TypeError, match="one number"):
        nn.get_scaled_dot_general_config("nvfp4", np.ones(3))


def test_without_configs(assert_close):
    a, b = normal(2, 5), normal(3, 5)
    assert_close(nn.scaled_dot_general(a, b, ROWS), a @ b.T, atol=1e-6)
    assert nn.scaled_dot_general(a, b, ROWS, cnp.bfloat16).dtype == cnp.bfloat16


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"preferred_element_type": "int32"}, "float32, bfloat16 or float16"),
        ({"preferred_element_type": None}, "float32, bfloat16 or float16"),
        ({"configs": []}, "three"),
        ({"configs": ["mxfp8"] * 3}, "get_scaled_dot_general_config"),
        ({"dimension_numbers": (1, 1)}, "dimension_numbers"),
        ({"dimension_numbers": (((1,), (2,)), ((), ()))}, "rhs contracting axes"),
        ({"dimension_numbers": (((0,), (1,)), ((), ()))}, "equal sizes"),
        ({"lhs": np.ones((2, 8), np.complex64)}, "real numbers"),
    ],
)
def test_scaled_dot_general_refuses(options, match):
    given = {"lhs": X[0], "rhs": X[0], "dimension_numbers": ROWS}
    with pytest.raises(TypeError, match=f"scaled_dot_general.*{match}"):
        nn.scaled_dot_general(**(given | {"configs": configs(cv, ["mxfp8"] * 3)} | options))


ROWS_AND_TWO = (((1, 2), (0, 2)), ((), ()))


@pytest.mark.parametrize("out", [None, "float16", "float32"])
@pytest.mark.parametrize(
    ("data", "scales"),
    [("float32", "float32"), (E4M3, E4M3), (FP4, E4M3), ("int8", "float32"), ("float16", E5M2)],
)
def test_scaled_dot(data, scales, out, jax, assert_close):
    a, b = (3 * normal(8, 64)).astype(data), (3 * normal(64, 8, seed=1)).astype(data)
    s, u = normal(8, 2, seed=2).astype(scales), normal(4, 8, seed=3).astype(scales)
    options = {"lhs_scale": s, "rhs_scale": u, "preferred_element_type": out}
    wanted = given("api", lambda a, b: jax.lax.scaled_dot(a, b, **options), a, b)
    assert_close(lax.scaled_dot(a, b, **options), wanted, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((4, 64), (64, 3)), {}),
        (((4, 64), (64, 3)), {"lhs_scale": (4, 2)}),
        (((4, 64), (64, 3)), {"rhs_scale": (4, 3)}),
        (((2, 5, 4, 8), (2, 5, 8, 3)), {"lhs_scale": (2, 5, 4, 1)}),
        (((4, 6, 8), (6, 3, 8)), {"lhs_scale": (4, 3, 2), "dimension_numbers": ROWS_AND_TWO}),
        (((4, 64), (3, 64)), {"lhs_scale": (4, 4), "dimension_numbers": ROWS}),
    ],
)
def test_axes_of_scaled_dot(shapes, options, jax, assert_close):
    a, b = (normal(*shape, seed=k) for k, shape in enumerate(shapes))
    full = {k: normal(*v, seed=5) if "scale" in k else v for k, v in options.items()}

    def product(lib):
        return lib.lax.scaled_dot(a, b, preferred_element_type="float32", **full)

    assert_close(product(cv), given("api", lambda: product(jax)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((8,), (8,)), {}),
        (((2, 4, 8), (8, 3)), {}),
        (((4, 8), (6, 3)), {}),
        (((2, 4, 8), (3, 8, 3)), {}),
        (((4, 8), (8, 3)), {"lhs_scale": (4, 3)}),
        (((4, 8), (8, 3)), {"lhs_scale": (4, 8)}),
        (((4, 8), (8, 3)), {"lhs_scale": (3, 2)}),
        (((4, 8), (8, 3)), {"rhs_scale": (2,)}),
        (((4, 8), (8, 3)), {"preferred_element_type": "foo"}),
    ],
)
def test_scaled_dot_refuses(shapes, options, jax):
    a, b = (normal(*shape) for shape in shapes)
    given = {k: normal(*v) if "scale" in k else v for k, v in options.items()}
    for lib in (jax, cv):
        with pytest.raises(TypeError):
            lib.lax.scaled_dot(a, b, **given)


def test_scaled_dot_names_what_is_wrong():
    with pytest.raises(
        TypeError, match=r"scaled_dot: rhs_scale must .*8,3.*\(0,\); got f32\[3,3\]"
    ):
        lax.scaled_dot(normal(4, 8), normal(8, 3), rhs_scale=normal(3, 3))
