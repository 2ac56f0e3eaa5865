"""The expansions against exact values: errors in ulps, over the whole domain."""

import mpmath
import numpy as np
import pytest

from covector.compiler.math import expand_all
from covector.compiler.math.cost import COST, cost, counted
from covector.compiler.math.evaluate import evaluate
from covector.compiler.math.expand import FLOAT_RULES
from covector.ir.scalar import ARITY, expr, name, walk
from tests.compiler.math_samples import FUNCTIONS, arguments, digamma, double, exact, lgamma, ulps

SLOW = {"erfc", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"}
DTYPES = ["float32", "float64"]


def expanded(op: str, dtype: str):
    args = [name(v, dtype) for v in "xy"[: ARITY[op]]]
    return expand_all([expr(op, dtype, *args)])[0]


def worst(op: str, dtype: str, *args: np.ndarray, reference=None) -> tuple[float, tuple]:
    got = np.broadcast_to(
        evaluate(expanded(op, dtype), dict(zip("xy", args, strict=False))), args[0].shape
    )
    if reference is None:
        reference = double(FUNCTIONS[op][1]) if dtype == "float32" else exact(FUNCTIONS[op][0])
    want = reference(*args)
    if dtype == "float32":  # quickly
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(want), np.finfo(dtype).tiny)
            unit = np.exp2(np.floor(np.log2(size)) - 23)
            errors = np.abs(got.astype(np.float64) - want) / unit
            rounded = want.astype(np.float32)
        same = (got == rounded) & ~np.isfinite(rounded) | np.isnan(got) & np.isnan(want)
        errors = np.where(same, 0, np.where(np.isnan(errors), np.inf, errors))
    else:
        errors = ulps(got, want, dtype)
    i = int(np.argmax(errors))
    return errors[i], (*(a[i] for a in args), got[i], want[i])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [op for op in FUNCTIONS if ARITY[op] == 1])
def test_function(op, dtype):
    n = 20000 if dtype == "float32" else 60 if op in SLOW else 250
    x = arguments(op, dtype, n)
    x = x[x != 0]  # signs of zeros have their own test
    bound = FUNCTIONS[op][2 if dtype == "float32" else 3]
    error, where = worst(op, dtype, x)
    assert error <= bound, (op, dtype, error, where)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["pow", "atan2"])
def test_function_of_two(op, dtype):
    n = 20000 if dtype == "float32" else 150
    x, y = arguments("exp", dtype, n), arguments("sin", dtype, n)
    x, y = x[: len(y)], y[: len(x)]
    rng = np.random.default_rng(5)
    close = 1 + rng.uniform(-1e-3, 1e-3, n)  # with large exponents
    x = np.concatenate([rng.permutation(x), np.abs(x), close.astype(dtype)])
    y = np.concatenate([y, rng.permutation(y), rng.uniform(-1e5, 1e5, n).astype(dtype)])
    if op == "pow":
        x = np.abs(x)
    keep = (x != 0) & (y != 0)  # signs of zeros have their own test
    x, y = x[keep], y[keep]
    error, where = worst(op, dtype, x, y)
    assert error <= FUNCTIONS[op][2 if dtype == "float32" else 3], (op, dtype, error, where)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["pow", "atan2"])
def test_special_cases_of_two(op, dtype):
    f = np.finfo(dtype)
    ends = [0.0, 1.0, 0.5, 2.0, 3.0, 1.5, np.inf, f.max, f.tiny, f.smallest_subnormal,
            2.0 ** (f.nmant + 1), 2.0**f.nmant + 1, 1e-10]  # fmt: skip
    ends = np.array([*ends, *(-v for v in ends), np.nan], dtype)
    x, y = (v.ravel() for v in np.meshgrid(ends, ends))
    got = evaluate(expanded(op, dtype), {"x": x, "y": y})
    with np.errstate(all="ignore"):
        want = {"pow": np.power, "atan2": np.arctan2}[op](x, y)
    np.testing.assert_allclose(got, want, rtol=4 * f.eps)
    number = ~np.isnan(want)
    assert (np.signbit(got) == np.signbit(want))[number].all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", sorted(set(FUNCTIONS) - {"pow", "atan2"}))
def test_special_values(op, dtype):
    """Zeros with their signs, infinities, NaN, and the ends of the domain, as NumPy and SciPy."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1.5, -1.5, -2.0], dtype)
    got = evaluate(expanded(op, dtype), {"x": x})
    if op == "lgamma":
        want = np.array([np.inf, np.inf, np.inf, np.inf, np.nan, 0, np.inf, -0.12078223763524522,
                         0.860047015376481, np.inf])  # fmt: skip
    else:
        want = double(FUNCTIONS[op][1])(x)
    rtol = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol / 8 if op == "cos" else 0)
    zero_in, zero_out = (x == 0) & (op != "bessel_i1e"), want == 0
    same_sign = np.signbit(got) == np.signbit(want)
    assert (same_sign | ~(zero_in & zero_out)).all()
    if op in ("bessel_i1e", "sin", "tan", "erf", "expm1"):
        assert np.signbit(got[:2]).tolist() == [False, True]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_angles_near_their_zeros_and_huge(op, dtype):
    rng = np.random.default_rng(1)
    with mpmath.workdps(330):
        multiples = [int(k) for k in [*range(1, 60), *rng.integers(1, 2**31, 60)]]
        near = [float(k * mpmath.pi / 2) for k in multiples]
        power = 127 if dtype == "float32" else 1023
        # the float32 and float64 nearest to multiples of pi / 2 (J.-M. Muller, "Elementary
        # Functions", 2016, ch. 11)
        hardest = [16367173 * 2.0**72, 6381956970095103 * 2.0**797 if power > 127 else 1.0]
        huge = rng.uniform(1, 2, 150) * 2.0 ** rng.integers(10, power, 150)
        limits = [2.0**17, 2.0**26, 2.0**27 + 1]
        x = np.array([*near, *hardest, *huge, *limits, *(np.nextafter(v, 0) for v in limits)])
        x = x.astype(dtype)

        def reference(x):
            return [getattr(mpmath, op)(mpmath.mpf(v)) for v in x.tolist()]

        got = evaluate(expanded(op, dtype), {"x": x})
        errors = ulps(got, reference(x), dtype)
        assert errors.max() <= 1.8, x[errors.argmax()]
    if op != "tan":
        assert np.abs(got).max() <= 1


@pytest.mark.parametrize("op", ["lgamma", "digamma"])
def test_negative_arguments_to_an_absolute_error(op):
    x = -np.random.default_rng(0).uniform(0, 20, 300)
    got = evaluate(expanded(op, "float64"), {"x": x})
    want = np.array([float(v) for v in exact({"lgamma": lgamma, "digamma": digamma}[op])(x)])
    slope = 1 / np.abs(x - np.round(x))  # digamma is as steep as 1 / (distance to a pole)**2
    error = np.abs(got - want) / np.maximum(1, np.abs(want)) / slope
    assert error.max() < 4e-15


@pytest.mark.parametrize("dtype", DTYPES)
def test_sign_and_range_are_kept(dtype):
    x = arguments("tanh", dtype, 3000)
    for op, low, high in (("tanh", -1, 1), ("erf", -1, 1), ("logistic", 0, 1), ("sin", -1, 1),
                          ("cos", -1, 1), ("expm1", -1, np.inf), ("erfc", 0, 2)):  # fmt: skip
        got = evaluate(expanded(op, dtype), {"x": x})
        assert ((got >= low) & (got <= high)).all(), op


@pytest.mark.parametrize(
    ("op", "most"),
    [("exp", 19), ("tanh", 30), ("logistic", 30), ("log", 30), ("erf", 34), ("expm1", 23)],
)
def test_hot_functions_stay_short(op, most):
    """The time to generate code is linear in this."""
    nodes = [n for n in walk(expanded(op, "float32")) if n.args and n.op != "bitcast"]
    assert len(nodes) <= most


def test_costs_are_those_of_the_expansions():
    for op in FLOAT_RULES:
        if op not in ("max", "min", "ceil", "trunc"):  # an instruction or two, where native
            assert COST.get(op, 1) == counted(op, "float32"), op
    x = name("x", "float32")
    assert cost(expr("exp", "float32", x)) == COST["exp"]
    assert cost(x) == 0
    assert cost(x + x) == 1
    n = name("n", "int32")
    assert cost(expr("div", "int32", n, n)) > cost(n + n) == 1
    h = name("h", "bfloat16")
    assert cost(h + h) > cost(x + x)
    z = name("z", "complex64")
    assert cost(z + z) > cost(x + x)
