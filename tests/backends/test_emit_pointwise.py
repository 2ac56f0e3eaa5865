"""Every basic operation, every element type, as vectors, tails and scalars, against the meaning."""

import numpy as np
import pytest

from covector.backends.cpu.emit.arith import RULES
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.emit.types import ELEMENTS
from covector.backends.cpu.target import Target, host
from covector.compiler.loops.program import For, Kernel, Store
from covector.ir.index import Affine
from covector.ir.scalar import ARITY, COMPARISONS, bitcast, cast, const, expr, select
from tests.backends import harness
from tests.backends.harness import at, buffer, buffers, i, values

N = 139  # whole blocks, one vector more, and a rest
DTYPES = sorted(ELEMENTS)


def check(*args, **more):
    return harness.check(*args, lanes=True, **more)


def pointwise(value, out: str, dtype: str, arity: int, n: int = N) -> Kernel:
    inputs = [buffer(f"x{k}", [n], dtype, "in") for k in range(arity)]
    body = [For("i", Affine(), Affine(n), [Store("y", (i("i"),), value)], "vector", 2)]
    return Kernel("f", buffers(*inputs, buffer("y", [n], out, "out")), body)


def inputs(dtype: str, arity: int, n: int = N) -> list[np.ndarray]:
    return [values([n], dtype, k) for k in range(arity)]


CASES = sorted(
    {(op, e.name) for (op, group) in RULES for e in ELEMENTS.values() if e.group == group}
)


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_operation(op, dtype):
    out = "bool" if op in COMPARISONS or op == "is_finite" else dtype
    args = [at(f"x{k}", "i", dtype=dtype) for k in range(ARITY[op])]
    kernel = pointwise(expr(op, out, *args), out, dtype, len(args))
    given = inputs(dtype, len(args))
    if op.startswith("shift"):
        given[1] = np.random.default_rng(0).integers(0, 70, N).astype(given[1].dtype)
    # 1/sqrt is rounded twice; the oracle rounds once.
    blank = np.ones(N, bool) if out == "bool" else np.full_like(given[0], 1)
    check(kernel, [*given, blank], rtol=1e-6 if op == "rsqrt" else 0.0)


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("of", DTYPES)
def test_cast(of, to):
    kernel = pointwise(cast(at("x0", "i", dtype=of), to), to, of, 1)
    (x,) = inputs(of, 1)
    if of == to:
        kernel = pointwise(at("x0", "i", dtype=of), to, of, 1)
    check(kernel, [x, np.ones(N, values([1], to).dtype)])


@pytest.mark.parametrize("divisor", [0, 1, 2, 7, -1, -3, 100])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_division_by_a_constant(dtype, divisor):
    if divisor < 0 and dtype.startswith("u"):
        divisor = -divisor
    x = at("x0", "i", dtype=dtype)
    for op in ("div", "rem"):
        kernel = pointwise(expr(op, dtype, x, const(divisor, dtype)), dtype, dtype, 1)
        check(kernel, [*inputs(dtype, 1), np.ones(N, dtype)])


@pytest.mark.parametrize("amount", [0, 1, 7, 31, 32, 64, 65])
@pytest.mark.parametrize("op", ["shift_left", "shift_right_logical", "shift_right_arithmetic"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint8"])
def test_shift_by_a_constant(dtype, op, amount):
    x = at("x0", "i", dtype=dtype)
    kernel = pointwise(expr(op, dtype, x, const(amount, dtype)), dtype, dtype, 1)
    check(kernel, [*inputs(dtype, 1), np.ones(N, dtype)])


@pytest.mark.parametrize(
    ("of", "to"),
    [
        ("float32", "int32"),
        ("uint32", "float32"),
        ("float64", "uint64"),
        ("int64", "float64"),
        ("float16", "uint16"),
        ("int16", "bfloat16"),
        ("bfloat16", "float16"),
        ("int8", "uint8"),
    ],
)
def test_bitcast(of, to):
    x = values([N], of)
    kernel = pointwise(bitcast(at("x0", "i", dtype=of), to), to, of, 1)
    check(kernel, [x, np.ones(N, values([1], to).dtype)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_select_and_constants(dtype):
    x, y = (at(f"x{k}", "i", dtype=dtype) for k in range(2))
    number = True if dtype == "bool" else 3
    keep = expr("ne", "bool", cast(x, "float32"), const(1.0, "float32"))
    value = select(keep, x, select(expr("not", "bool", keep), const(number, dtype), y))
    blank = np.ones(N, values([1], dtype).dtype)
    check(pointwise(value, dtype, dtype, 2), [*inputs(dtype, 2), blank])


@pytest.mark.parametrize("number", [0.1, -0.0, 1e300, float("nan"), float("inf"), 65520.0, 1e-45])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_float_constants(dtype, number):
    blank = np.ones(N, values([1], dtype).dtype)
    got = check(pointwise(const(number, dtype), dtype, dtype, 0), [blank])
    with np.errstate(over="ignore"):
        want = np.array(number).astype(got[0].dtype)
    assert np.signbit(got[0][0].astype("d")) == np.signbit(want.astype("d")) or np.isnan(number)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("hardware", [True, False])
def test_half_precision_all_values(dtype, hardware):
    """Every 16-bit pattern widens exactly, and narrows back to itself; with and without F16C."""
    h = host()
    features = h.features if hardware else h.features.replace("+f16c", "-f16c")
    target = Target(h.triple, h.cpu, features)
    n = 1 << 16
    patterns = np.arange(n, dtype=np.uint16).view(values([1], dtype).dtype)
    wide = pointwise(cast(at("x0", "i", dtype=dtype), "float32"), "float32", dtype, 1, n)
    _, single = check(wide, [patterns, np.zeros(n, np.float32)], target=target)
    narrow = pointwise(cast(at("x0", "i"), dtype), dtype, "float32", 1, n)
    _, back = check(narrow, [single, np.zeros(n, patterns.dtype)], target=target)
    number = ~np.isnan(single)
    assert (back.view(np.uint16) == patterns.view(np.uint16))[number].all()
    with np.errstate(all="ignore"):
        between = np.nextafter(single, np.float32(np.inf), dtype=np.float32)
        last = np.frexp(single)[1] - (12 if dtype == "float16" else 9)
        halfway = (single + np.ldexp(np.float32(1), last)).astype(np.float32)
        for x in (between, halfway):
            check(narrow, [x, np.zeros(n, patterns.dtype)], target=target)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("op", ["exp", "log", "tanh", "log1p", "expm1", "sin"])
def test_expanded_functions(op, dtype):
    """The polynomials of compiler.math, as vectors; the rare case of sin behind a branch."""
    x = values([N], dtype)
    kernel = pointwise(expr(op, dtype, at("x0", "i", dtype=dtype)), dtype, dtype, 1)
    ulp = {"float32": 2e-7, "float64": 1e-15, "bfloat16": 1e-2}[dtype]
    check(kernel, [x, np.ones(N, x.dtype)], rtol=4 * ulp)


def test_unknown_operation_is_refused():
    x = at("x0", "i")
    with pytest.raises(NotImplementedError, match="population_count of float32"):
        emit(pointwise(expr("population_count", "float32", x), "float32", "float32", 1), host())
