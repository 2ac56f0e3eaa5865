"""Elementwise ops, casts, reductions, running reductions, contractions: `result` and `numpy`
against the oracle, native rules against `numpy`."""

import warnings

import numpy as np
import pytest

from covector.ir.avals import ShapedArray
from covector.ir.op import Op, has_rule
from covector.ops import _check
from tests.ops.filling import avals, describe, fill
from tests.ops.vector_ask import run_cumulate, run_kernel
from tests.oracle import answer

jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
lax = jax.lax

#: Ops whose public function has another name, or parameters.
ORACLE = {
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "not": lax.bitwise_not,
    "add_any": lax.add,
    "scale_tangent": lambda op, t, c: jax.numpy.where(t == 0, t * 0, t * c),
    "round": lambda op, x: lax.round(x, lax.RoundingMethod(op.rounding_method)),
    "integer_pow": lambda op, x: lax.integer_pow(x, op.y),
    "convert_element_type": lambda op, x: lax.convert_element_type(x, op.new_dtype),
    "bitcast_convert_type": lambda op, x: lax.bitcast_convert_type(x, op.new_dtype),
    "reduce_precision": lambda op, x: lax.reduce_precision(x, op.exponent_bits, op.mantissa_bits),
    "stop_gradient": lax.stop_gradient,
    "dot_general": lambda op, x, y: lax.dot_general(
        x, y, op.dimension_numbers, preferred_element_type=op.preferred_element_type
    ),
}
for _name in ("sum", "prod", "max", "min", "and", "or", "xor"):
    _reduce = getattr(lax, f"reduce_{_name}")
    ORACLE[f"reduce_{_name}"] = lambda op, x, _reduce=_reduce: _reduce(x, op.axes)
for _name in ("argmax", "argmin"):
    _arg = getattr(lax, _name)
    ORACLE[_name] = lambda op, x, _arg=_arg: _arg(x, op.axes[0], op.index_dtype)
for _name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    _running = getattr(lax, _name)
    ORACLE[_name] = lambda op, x, _running=_running: _running(x, op.axis, op.reverse)

ELEMENTWISE = """
neg sign floor ceil is_finite exp exp2 log expm1 log1p tan sin cos asin acos atan atan2 sinh cosh
tanh asinh acosh atanh logistic lgamma digamma erf erfc erf_inv bessel_i0e bessel_i1e sqrt rsqrt
cbrt pow square abs real imag conj complex add sub mul div rem max min nextafter population_count
clz shift_left shift_right_logical shift_right_arithmetic eq ne lt le gt ge select_n clamp zeta
polygamma mulhi
"""

NAMES = [*ELEMENTWISE.split(), *ORACLE]
EPS = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "complex64": 4e-6}


def oracle(op, *arrays):
    function = ORACLE.get(op.name)
    if function is None:
        return getattr(lax, op.name)(*arrays)
    takes_op = function.__code__.co_varnames[:1] == ("op",)
    return function(op, *arrays) if takes_op else function(*arrays)


def check_close(found, wanted, scale, where=""):
    """Equal for integers; to a few units in the last place for floats."""
    name = found.dtype.name
    if _check.kind(found.dtype) not in "fc":
        np.testing.assert_array_equal(found, wanted, where)
        return
    tolerance = scale * EPS.get(name, 1e-13)
    finite = np.abs(found[np.isfinite(found)].astype(np.complex128))
    size = max(1.0, finite.max(initial=0.0))
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        found.astype(wide),
        np.asarray(wanted).astype(wide),
        rtol=tolerance,
        atol=size * tolerance / 4,
        err_msg=where,
    )


def samples_of(name):
    """All but those of keys, which the oracle has elsewhere."""
    for sample in Op.registry[name].samples():
        if all(not isinstance(a, ShapedArray) or _check.kind(a.dtype) != "k" for a in sample.args):
            yield sample


@pytest.mark.parametrize("name", NAMES)
def test_result_and_numpy_equal_the_oracle(name):
    samples = list(samples_of(name))
    arguments = [fill(s) for s in samples]
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex to real
        wanted = answer(
            "ops",
            lambda many: [oracle(s.op, *xs) for s, xs in zip(samples, many, strict=True)],
            arguments,
        )
    for sample, arrays, y in zip(samples, arguments, wanted, strict=True):
        out = sample.op.result(*avals(arrays, sample))
        with np.errstate(all="ignore"):
            x = np.asarray(sample.op.numpy(*arrays))
        where = describe(sample)
        assert x.shape == out.shape == y.shape, where
        assert x.dtype == out.dtype == y.dtype, where
        check_close(x, np.asarray(y), 2 * sample.scale, where)


@pytest.mark.parametrize("name", [*NAMES, "linear_recurrence"])
def test_native_rule_equals_numpy(name):
    for sample in Op.registry[name].samples():
        arrays = fill(sample, 1)
        out = sample.op.result(*avals(arrays, sample))
        with np.errstate(all="ignore"):
            wanted = np.asarray(sample.op.numpy(*arrays))
            run = run_kernel if has_rule(sample.op, "kernel") else run_cumulate
            (found,) = run(sample.op, arrays, [out])
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), describe(sample)
        check_close(found, wanted, sample.scale, describe(sample))
