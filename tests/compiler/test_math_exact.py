"""Expansions that have nothing to round: they equal the meaning bit for bit."""

import numpy as np
import pytest

from covector.compiler.math import BASIC, expand_all
from covector.compiler.math.evaluate import evaluate
from covector.compiler.math.expand import FLOAT_RULES, INTEGER_RULES
from covector.compiler.math.formats import numpy_dtype
from covector.compiler.math.power import integer_pow
from covector.ir.scalar import ARITY, COMPARISONS, Expr, cast, const, expr, name, walk

INTEGERS = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
FLOATS = ["float32", "float64"]
NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
SHIFTS = ["shift_left", "shift_right_logical", "shift_right_arithmetic"]
EXACT_FLOAT = [
    "ceil", "trunc", "round_away", "is_finite", "sign", "square", "nextafter", "rem", "max", "min",
]  # fmt: skip


def floats(dtype: str, n: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(7)
    f = np.finfo(dtype)
    ends = [0.0, 1.0, 0.5, 1.5, 2.5, 0.49999999999999994, np.inf, np.nan, f.max, f.tiny,
            f.smallest_subnormal, 1 + f.eps, 1 - f.eps / 2, 2.0**f.nmant + 1, 2.0**f.nmant - 0.5,
            3e-300, 1e300, 7.0]  # fmt: skip
    bits = rng.integers(0, 1 << f.bits - 1, n, np.uint64)
    any_bits = bits.astype(f"u{f.bits // 8}").view(dtype)
    usual = (rng.normal(size=n) * 10.0 ** rng.integers(-2, 3, n)).astype(dtype)
    with np.errstate(over="ignore"):
        x = np.concatenate([any_bits, usual, np.array(ends).astype(dtype)])
    return np.concatenate([x, -x])


def pairs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs, and each with itself and with some of the ends."""
    rng = np.random.default_rng(8)
    ends = np.concatenate([x[-20:], x[len(x) // 2 - 20 : len(x) // 2]])
    grid = np.meshgrid(ends, ends)
    y = rng.permutation(x)
    return np.concatenate([x, x, grid[0].ravel()]), np.concatenate([y, x, grid[1].ravel()])


def integers(dtype: str, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7], dtype)
    if info.min < 0:
        ends = np.concatenate([ends, np.array([-1, -2, -7], dtype)])
    grid = [v.ravel() for v in np.meshgrid(ends, ends)]
    x, y = (rng.integers(info.min, info.max, n, dtype, endpoint=True) for _ in range(2))
    small = rng.integers(max(info.min, -9), 10, n).astype(dtype)
    return np.concatenate([x, x, grid[0]]), np.concatenate([y, small, grid[1]])


def assert_same_bits(got: np.ndarray, want: np.ndarray, *given: np.ndarray) -> None:
    assert got.dtype == want.dtype
    if got.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):  # a signalling NaN
            wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
        nan = np.isnan(wide_got) & np.isnan(wide_want)
        same = nan | (wide_got == wide_want) & (np.signbit(wide_got) == np.signbit(wide_want))
    else:
        same = got == want
    bad = np.flatnonzero(~same)
    assert not len(bad), [(*(g[i] for g in given), got[i], want[i]) for i in bad[:5]]


def check(root: Expr, **env: np.ndarray) -> Expr:
    """Expanded with nothing native, `root` is basic, and has the same values."""
    (plain,) = expand_all([root])
    assert {node.op for node in walk(plain)} <= BASIC
    assert_same_bits(evaluate(plain, env), evaluate(root, env), *env.values())
    return plain


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", EXACT_FLOAT)
def test_float(op, dtype):
    x, y = pairs(floats(dtype))
    out = "bool" if op == "is_finite" else dtype
    check(expr(op, out, *[name(v, dtype) for v in ("x", "y")[: ARITY[op]]]), x=x, y=y)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -2.5, float("inf"), float("nan")])
def test_extremum_with_a_constant(op, dtype, number):
    x = floats(dtype)
    plain = check(expr(op, dtype, const(number, dtype), name("x", dtype)), x=x)
    if number == number:
        compared, chosen = [n.op for n in walk(plain) if n.args]
        assert compared in COMPARISONS
        assert chosen == "select"


def test_remainder_of_huge_quotients():
    rng = np.random.default_rng(3)
    for dtype, least, most in (("float32", -149, 128), ("float64", -1074, 1024)):
        x, y = (np.ldexp(rng.random(20000), rng.integers(least, most, 20000)).astype(dtype)
                for _ in range(2))  # fmt: skip
        whole = np.ldexp(np.round(y * 0 + rng.random(20000) * 1000), 60).astype(dtype)
        root = expr("rem", dtype, name("x", dtype), name("y", dtype))
        check(root, x=np.concatenate([x, whole]), y=np.concatenate([y, np.float32(3) + 0 * y]))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", [*sorted(set(INTEGER_RULES) - {"pow"}), "abs", "neg", "not"])
def test_integer(op, dtype):
    x, y = integers(dtype)
    check(expr(op, dtype, *[name(v, dtype) for v in ("x", "y")[: ARITY[op]]]), x=x, y=y)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_integer_power(dtype):
    x, y = integers(dtype, 200)
    check(expr("pow", dtype, name("x", dtype), name("y", dtype)), x=x, y=y)
    for n in (0, 1, 2, 3, 5, 8, 13):
        got = evaluate(integer_pow(name("x", dtype), n), {"x": x})
        want = x * 0 + 1
        for _ in range(n):
            want = want * x
        assert_same_bits(np.broadcast_to(got, x.shape), want, x)


def test_float_to_an_integer_power():
    x = np.array([3.0, -3.0, 0.0, -0.0, -1.5, np.inf, -np.inf])
    for dtype in FLOATS:
        for n in (-3, -1, 0, 2, 5):
            root = expr("pow", dtype, name("x", dtype), name("n", "int32"))
            got = evaluate(expand_all([root])[0], {"x": x.astype(dtype), "n": np.int32(n)})
            with np.errstate(all="ignore"):
                want = np.array([np.power(v, float(n)) for v in x.astype(dtype)])
            np.testing.assert_allclose(got, want, rtol=4e-7 if dtype == "float32" else 1e-15)
            assert (np.signbit(got) == np.signbit(want)).all()
    got = integer_pow(name("x", "float64"), -3)
    np.testing.assert_allclose(evaluate(got, {"x": x[:2]}), x[:2] ** -3)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", SHIFTS)
def test_shift(op, dtype):
    x, y = integers(dtype)
    by = np.concatenate([y[: len(y) // 2], np.arange(len(y) - len(y) // 2) % 70]).astype(dtype)
    check(expr(op, dtype, name("x", dtype), name("y", dtype)), x=x, y=by)
    for amount in (0, 1, numpy_dtype(dtype).itemsize * 8 - 1, 64):
        check(expr(op, dtype, name("x", dtype), const(amount, dtype)), x=x)


@pytest.mark.parametrize("divisor", [0, 1, -1, 3, 100])
def test_division_by_a_constant(divisor):
    x, _ = integers("int32")
    for op in ("div", "rem"):
        check(expr(op, "int32", name("x", "int32"), const(divisor, "int32")), x=x)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("op", ["add", "mul", "div", "fma", "sqrt", "max", "lt", "eq", "floor"])
def test_narrow_floats_are_rounded_after_each_operation(op, dtype):
    rng = np.random.default_rng(1)
    bits = f"u{numpy_dtype(dtype).itemsize}"
    x, y, z = (rng.integers(0, np.iinfo(bits).max, 4000).astype(bits).view(numpy_dtype(dtype))
               for _ in range(3))  # fmt: skip
    out = "bool" if op in COMPARISONS else dtype
    args = [name(v, dtype) for v in ("x", "y", "z")[: ARITY[op]]]
    plain = check(expr(op, out, *args), x=x, y=y, z=z)
    arithmetic = [n for n in walk(plain) if n.op not in ("cast", "name", "bitcast", "const")]
    assert {a.dtype for n in arithmetic for a in n.args} <= {"float32", "int32", "bool"}


@pytest.mark.parametrize("dtype", NARROW)
def test_nextafter_in_narrow_floats(dtype):
    steps = numpy_dtype(dtype)
    bits = f"u{steps.itemsize}"
    x = np.arange(1 << 8 * steps.itemsize, dtype=np.int64).astype(bits).view(steps)
    root = expr("nextafter", dtype, name("x", dtype), name("y", dtype))
    check(root, x=x, y=np.random.default_rng(3).permutation(x))
    one, up = np.array([1, -1], steps), np.array([2, 2], steps)
    moved = evaluate(expand_all([root])[0], {"x": one, "y": up})
    assert (moved.view(bits).astype(int) - one.view(bits).astype(int)).tolist() == [1, -1]


def test_narrow_floats_agree_with_xla():
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(2)
    for dtype in ("float16", "bfloat16"):
        x, y, z = (rng.normal(size=5000).astype(numpy_dtype(dtype)) for _ in range(3))
        nodes = [name(v, dtype) for v in "xyz"]
        root = nodes[0] * nodes[1] + nodes[2]
        got = evaluate(expand_all([root])[0], {"x": x, "y": y, "z": z})
        want = np.asarray(jax.numpy.add(jax.numpy.multiply(x, y), z))  # op by op
        assert_same_bits(got, want, x, y, z)
        wide = rng.normal(size=5000)
        with jax.enable_x64(True):
            narrowed = np.asarray(jax.lax.convert_element_type(wide, dtype))
        assert_same_bits(evaluate(cast(name("x", "float64"), dtype), {"x": wide}), narrowed, wide)


def test_casts_saturate_and_zero_nan():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 127.9, -128.9, 255.5, 2.0**31, -1.0, 0.9])
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        got = evaluate(cast(name("x", "float64"), dtype), {"x": x})
        want = [0 if v != v else min(max(int(v) if abs(v) < 1e30 else (info.max if v > 0 else
                info.min), info.min), info.max) for v in x]  # fmt: skip
        assert got.tolist() == want


def test_every_operation_has_a_meaning_and_an_expansion_or_is_basic():
    from covector.compiler.math.evaluate import EVALUATED

    assert set(ARITY) <= set(EVALUATED)
    parts = {"complex", "real", "imag", "conj", "select_rare"}
    assert set(ARITY) <= BASIC | parts | set(FLOAT_RULES) | set(INTEGER_RULES)


def test_expansion_needs_no_recursion_and_keeps_sharing():
    x = name("x", "float32")
    for _ in range(3000):
        x = expr("tanh", "float32", x)
    (plain,) = expand_all([x], frozenset({"tanh"}))
    assert plain is x
    (plain,) = expand_all([expr("exp", "float32", name("x", "float32"))] * 1)
    two = expand_all([expr("exp", "float32", name("x", "float32")) + 1.0, plain])
    assert two[0].args[0] is two[1]


def test_a_complex_operation_is_refused_with_the_reason():
    with pytest.raises(NotImplementedError, match="split complex values into parts"):
        expand_all([expr("exp", "complex64", name("z", "complex64"))])
