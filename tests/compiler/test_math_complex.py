"""Complex expressions as pairs of real ones: against exact values, NumPy's cuts, and JAX."""

import mpmath
import numpy as np
import pytest

from covector.compiler.math import expand_all, split_complex
from covector.compiler.math.complex_parts import NATIVE_WIDTH, STRUCTURE, WIDE
from covector.compiler.math.evaluate import evaluate, evaluate_all
from covector.ir.index import Affine, affine
from covector.ir.scalar import ARITY, cast, const, expr, load, name, select, walk

DTYPES = ["complex64", "complex128"]
PART = {"complex64": "float32", "complex128": "float64"}
EXACT = {
    **{op: getattr(mpmath, op) for op in (
        "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
        "asinh", "acosh", "atanh",
    )},
    "exp2": lambda z: mpmath.mpf(2) ** z,
    "log1p": lambda z: mpmath.log(1 + z),
    "expm1": lambda z: mpmath.exp(z) - 1,
    "logistic": lambda z: 1 / (1 + mpmath.exp(-z)),
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "square": lambda z: z * z,
    "sign": lambda z: z / abs(z),
}  # fmt: skip
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
         "acosh": "arccosh", "atanh": "arctanh"}  # fmt: skip


def run(op: str, dtype: str, *args: np.ndarray, out: str | None = None) -> np.ndarray:
    env = {}
    for label, z in zip("zw", args, strict=False):
        env[f"{label}.re"], env[f"{label}.im"] = z.real.copy(), z.imag.copy()
    nodes = [name(label, dtype) for label in "zw"[: len(args)]]
    (root,) = split_complex([expr(op, out or dtype, *nodes)])
    if not isinstance(root, tuple):
        return evaluate(expand_all([root])[0], env)
    re, im = evaluate_all(expand_all(root), env)
    result = np.empty(np.broadcast_shapes(re.shape, im.shape), dtype)
    result.real, result.imag = re, im
    return result


def samples(dtype: str, n: int = 60) -> np.ndarray:
    """Of moderate, small and large size, near the unit circle, near the axes."""
    rng = np.random.default_rng(11)
    turn = np.exp(2j * np.pi * rng.random((4, n)))
    sizes = np.exp2(np.stack([rng.normal(size=n), rng.uniform(-40, 5, n), rng.uniform(-5, 6, n),
                              np.log2(1 + np.exp2(-rng.uniform(4, 40, n)))]))  # fmt: skip
    axes = rng.normal(size=n) + 1j * np.exp2(rng.uniform(-40, -2, n))
    return np.concatenate([(turn * sizes).ravel(), axes, 1j * axes]).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", sorted(EXACT))
def test_function(op, dtype):
    """Errors relative to the size of the result (the parts alone may cancel)."""
    f = np.finfo(dtype)
    z = samples(dtype)
    with np.errstate(over="ignore"):
        got = run(op, dtype, z)
    with mpmath.workdps(60):
        for point, value in zip(z.tolist(), got.tolist(), strict=True):
            want = mpmath.mpc(EXACT[op](mpmath.mpc(point)))
            if not float(f.tiny) < abs(want) < float(f.max) / 2:
                continue
            error = abs(mpmath.mpc(value) - want) / abs(want) / float(f.eps)
            assert error < 3, (op, point, value, complex(want))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", sorted(set(EXACT) - {"logistic", "rsqrt", "sign"}))
def test_cuts_and_signed_zeros_are_numpys(op, dtype):
    ends = np.array([0.0, -0.0, 1, -1, 0.5, 2, -3, 1e-5])
    z = np.empty((8, 8), dtype)
    z.real, z.imag = ends[:, None], ends[None]
    z = z.ravel()
    got = run(op, dtype, z)
    with np.errstate(all="ignore"):
        want = getattr(np, NUMPY.get(op, op))(z.astype(np.complex128))
    for g, w in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(g, w, rtol=2e-6, atol=1e-6)
        if op not in ("sin", "sinh", "cos", "cosh", "tan", "tanh", "square"):
            zero = (w == 0) & (g == 0)
            assert (np.signbit(g) == np.signbit(w))[zero].all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_is_scaled_and_its_limits_are_c99s(dtype):
    f = np.finfo(dtype)
    rng = np.random.default_rng(0)
    z, w = samples(dtype), rng.permutation(samples(dtype))
    want = z.astype(np.complex128) / w.astype(np.complex128)
    np.testing.assert_allclose(run("div", dtype, z, w), want, rtol=4 * f.eps)
    big, small = float(f.max) / 2, float(f.tiny)
    inf = np.inf
    over = np.array([big + 1j * big, small + 1j * small, 1 + 1j, complex(inf, 1), 1 + 2j, 1 + 0j])
    under = np.array([big + 1j * big, small + 1j * small, 0, 1 + 1j, complex(inf, inf),
                      complex(-inf, 0)])  # fmt: skip
    want = [1, 1, complex(inf, inf), complex(inf, -inf), 0, -0.0]
    got = run("div", dtype, over.astype(dtype), under.astype(dtype))
    np.testing.assert_allclose(got.real, np.real(want), rtol=f.eps)
    np.testing.assert_allclose(got.imag, np.imag(want), atol=f.eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_modulus_neither_overflows_nor_underflows(dtype):
    f = np.finfo(dtype)
    big, least = float(f.max) / 2, float(f.smallest_subnormal)
    z = np.array([big * (1 + 1j), 3 * least + 4j * least, complex(np.inf, np.nan), 0, 3 - 4j,
                  complex(np.nan, 1)]).astype(dtype)  # fmt: skip
    want = np.array([big * np.sqrt(2), 5 * least, np.inf, 0, 5, np.nan]).astype(PART[dtype])
    np.testing.assert_allclose(run("abs", dtype, z, out=PART[dtype]), want, rtol=f.eps)
    z = samples(dtype)
    want = np.abs(z.astype(np.complex128))
    np.testing.assert_allclose(run("abs", dtype, z, out=PART[dtype]), want, rtol=2 * f.eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials_overflow_no_sooner_than_they_must(dtype):
    edge = 89.0 if dtype == "complex64" else 710.0
    z = np.array([complex(edge, 1.5), complex(edge, 1.57079), 1j * edge, 1.5 + 1j * edge])
    for op in ("exp", "sin", "cos", "sinh", "cosh"):
        got = run(op, dtype, z.astype(dtype))
        with mpmath.workdps(30):
            exact = [EXACT[op](mpmath.mpc(v)) for v in z.astype(dtype).tolist()]
        with np.errstate(over="ignore"):
            for part in ("real", "imag"):
                want = np.array([float(getattr(v, part)) for v in exact]).astype(PART[dtype])
                np.testing.assert_allclose(getattr(got, part), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_power(dtype):
    z, w = samples(dtype, 40), np.random.default_rng(1).permutation(samples(dtype, 40))
    got = run("pow", dtype, z, w)
    with mpmath.workdps(40):
        for a, b, value in zip(z.tolist(), w.tolist(), got.tolist(), strict=True):
            exponent = mpmath.mpc(b) * mpmath.log(mpmath.mpc(a))
            want = mpmath.exp(exponent)
            if not float(np.finfo(dtype).tiny) < abs(want) < float(np.finfo(dtype).max) / 2:
                continue
            bound = (3 + abs(exponent) * (dtype == "complex128")) * float(np.finfo(dtype).eps)
            assert abs(mpmath.mpc(value) - want) / abs(want) < bound, (a, b, value, complex(want))
    zero, some = np.zeros(4, dtype), np.array([0, 1, 2 - 1j, -1], dtype)
    got = run("pow", dtype, zero, some)
    np.testing.assert_array_equal(got[:3], [1, 0, 0])
    assert np.isnan(got[3])


def test_structure_comparisons_and_casts():
    z, w = name("z", "complex64"), name("w", "complex64")
    re, im = name("z.re", "float32"), name("z.im", "float32")
    other_re, other_im = name("w.re", "float32"), name("w.im", "float32")
    split = split_complex([
        expr("real", "float32", z), expr("conj", "complex64", z), z + w, z * w,
        expr("eq", "bool", z, w), select(expr("eq", "bool", z, w), z, w),
        cast(z, "complex128"), cast(z, "float64"), cast(re, "complex64"),
        const(1 - 2j, "complex64"), cast(z, "bool"), -z,
    ])  # fmt: skip
    same = expr("and", "bool", expr("eq", "bool", re, other_re), expr("eq", "bool", im, other_im))
    assert split[:3] == [re, (re, -im), (re + other_re, im + other_im)]
    assert split[3] == (re * other_re - im * other_im, re * other_im + im * other_re)
    assert split[4] is same
    assert split[5] == (select(same, re, other_re), select(same, im, other_im))
    assert split[6] == (cast(re, "float64"), cast(im, "float64"))
    assert split[7] is cast(re, "float64")
    assert split[8] == (re, const(0.0, "float32"))
    assert split[9] == (const(1.0, "float32"), const(-2.0, "float32"))
    assert {n.op for n in walk(split[10])} == {"name", "const", "ne", "or"}
    assert split[11] == (-re, -im)


def test_a_load_becomes_two_loads_along_a_minor_axis():
    (pair,) = split_complex([load("x", (affine("i"),), "complex128")])
    assert pair == tuple(load("x", (affine("i"), Affine(k)), "float64") for k in (0, 1))
    named = {"z": (name("a", "float32"), name("b", "float32"))}
    (pair,) = split_complex([name("z", "complex64")], lambda node: named[node.extra])
    assert pair == named["z"]


def test_what_has_no_complex_meaning_is_refused():
    z = name("z", "complex64")
    with pytest.raises(NotImplementedError, match="erf has no meaning for complex64"):
        split_complex([expr("erf", "complex64", z)])
    assert set(EXACT) <= set(NATIVE_WIDTH) | set(WIDE) <= set(ARITY)
    assert set(STRUCTURE) <= set(ARITY)


@pytest.mark.parametrize("op", ["mul", "div", "exp", "log", "sqrt", "tanh", "sin", "log1p", "pow"])
def test_agrees_with_jax(op):
    jax = pytest.importorskip("jax")
    for dtype in DTYPES:
        z, w = samples(dtype, 30), np.random.default_rng(2).permutation(samples(dtype, 30))
        args = (z, w)[: ARITY[op]]
        with jax.enable_x64(True):
            want = np.asarray(getattr(jax.lax, op)(*args))
        got = run(op, dtype, *args)
        size = np.abs(want)
        usual = np.isfinite(size) & (size > 1e-30) & (size < 1e30)
        # log loses relative accuracy near 1 there
        error = np.abs(got - want)[usual] / np.maximum(size[usual], 1e-2 if op == "log" else 0)
        assert error.max() < (2e-4 if op == "pow" else 4e-5 if dtype == "complex64" else 1e-12)
