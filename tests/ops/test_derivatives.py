"""Derivatives where the laws' finite differences cannot look: singular points, ties, zeros,
infinities, branches that `where` masks; and weak types of results."""

import numpy as np
import pytest
import scipy.special

import covector as cv
from covector import ops
from covector._base.config import singular_derivatives
from covector.ir.avals import ShapedArray

P = ops.pointwise
inf, nan = np.inf, np.nan


def grad_of_sum(fun, x):
    """The gradient of the sum of fun(x), by reverse mode."""
    out, pullback = cv.vjp(fun, x)
    (back,) = pullback(np.ones(out.shape, out.dtype))
    return np.asarray(back)


def tangent(fun, x):
    """The derivative of an elementwise function, by forward mode."""
    return np.asarray(cv.jvp(fun, (x,), (np.ones_like(x),))[1])


#: name: (function that is bad outside x > 1/2, a masked use of which has a finite gradient).
BAD = {
    "sqrt": lambda x: P.sqrt(P.sub(x, np.float32(0.5))),
    "log": lambda x: P.log(P.sub(x, np.float32(0.5))),
    "rsqrt": lambda x: P.rsqrt(P.sub(x, np.float32(0.5))),
    "div": lambda x: P.div(np.float32(1), P.max_(P.sub(x, np.float32(0.5)), np.float32(0))),
    "pow": lambda x: P.pow_(P.sub(x, np.float32(0.5)), np.float32(0.3)),
    "asin": lambda x: P.asin(P.sub(np.float32(1.5), x)),
    "acosh": lambda x: P.acosh(P.add(x, np.float32(0.5))),
    "sin(1/x)": lambda x: P.sin(P.div(np.float32(1), P.max_(P.sub(x, np.float32(0.5)),
                                                            np.float32(0)))),
    "tanh(sqrt)": lambda x: P.tanh(P.sqrt(P.sub(x, np.float32(0.5)))),
    "exp": lambda x: P.exp(P.mul(P.sub(np.float32(0.6), x), np.float32(1e4))),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_masked_branch_does_not_poison_a_gradient(name):
    fun = BAD[name]
    x = np.float32([-1.0, 0.0, 0.5, 0.75, 1.0])

    def masked(x):
        return P.where(P.gt(x, np.float32(0.6)), fun(x), np.float32(0))

    found = grad_of_sum(masked, x)
    np.testing.assert_array_equal(found[:3], 0)
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found[3:], tangent(fun, x[3:]), rtol=1e-5)
    np.testing.assert_array_equal(tangent(masked, x)[:3], 0)


def test_the_option_gives_ieee_derivatives():
    def masked(x):
        return P.where(P.gt(x, np.float32(0)), P.sqrt(x), np.float32(0))

    x = np.float32([0.0, 4.0])
    with singular_derivatives("ieee"):
        assert np.isnan(grad_of_sum(masked, x)[0])
    np.testing.assert_allclose(grad_of_sum(masked, x), [0, 0.25])


def test_subgradients_of_abs():
    x = np.float32([-2, -0.0, 0.0, 3])
    np.testing.assert_array_equal(grad_of_sum(P.abs_, x), [-1, 0, 0, 1])
    z = np.complex64([3 + 4j, 0])
    np.testing.assert_allclose(grad_of_sum(P.abs_, z), [0.6 - 0.8j, 0], rtol=1e-6)


def test_ties_share_the_derivative():
    x = np.float32([1, 2, 3])
    other = np.float32([2, 2, 2])
    np.testing.assert_array_equal(grad_of_sum(lambda v: P.max_(v, other), x), [0, 0.5, 1])
    np.testing.assert_array_equal(grad_of_sum(lambda v: P.min_(v, other), x), [1, 0.5, 0])
    row = np.float32([1, 3, 3, 2])
    best = grad_of_sum(lambda v: ops.reduce.reduce_max(v, (0,)), row)
    np.testing.assert_array_equal(best, [0, 0.5, 0.5, 0])
    running = grad_of_sum(lambda v: ops.cumulative.cummax(v), np.float32([2, 2, 1, 3]))
    np.testing.assert_array_equal(running, [2, 1, 0, 1])


def test_an_extremum_beside_infinity():
    x = np.float32([-1.0, 2.0])
    found = grad_of_sum(lambda v: P.log(P.max_(v, np.float32(0))), x)
    np.testing.assert_array_equal(found, [0, 0.5])


def test_clamp_between_bounds_in_any_order():
    x = np.float32([0, 1, 1.5, 2, 3])
    inside = grad_of_sum(lambda v: P.clamp(np.float32(1), v, np.float32(2)), x)
    np.testing.assert_array_equal(inside, [0, 0, 1, 0, 0])
    crossed = grad_of_sum(lambda v: P.clamp(np.float32(2), v, np.float32(1)), x)
    np.testing.assert_array_equal(crossed, np.zeros(5))
    high = tangent(lambda h: P.clamp(np.float32(2), np.float32(1.5), h), np.float32(1))
    np.testing.assert_array_equal(high, 1)


@pytest.mark.parametrize("zeros", [[], [1], [1, 3]])
def test_products_with_zeros(zeros):
    x = np.float32([2, 3, 4, 5])
    x[zeros] = 0
    wanted = [np.prod(np.delete(x, i)) for i in range(4)]
    found = grad_of_sum(lambda v: ops.reduce.reduce_prod(v, (0,)), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    weights = np.float32([1, -2, 3, 0.5])
    running = grad_of_sum(lambda v: P.mul(ops.cumulative.cumprod(v), weights), x)
    wanted = [
        sum(w * np.prod(np.delete(x[: j + 1], i)) for j, w in enumerate(weights) if j >= i)
        for i in range(4)
    ]
    np.testing.assert_allclose(running, wanted, rtol=1e-6)


def test_pow_at_zero():
    x = np.float32([0, 0, 0, 2])
    y = np.float32([0, 1, 2, 3])
    np.testing.assert_array_equal(grad_of_sum(lambda v: P.pow_(v, y), x), [0, 1, 0, 12])
    by_exponent = grad_of_sum(lambda v: P.pow_(x, v), y)
    np.testing.assert_allclose(by_exponent, [0, 0, 0, 8 * np.log(2)], rtol=1e-6)
    whole = grad_of_sum(lambda v: P.pow_(v, np.int32([0, 1, 2, 3])), x)
    np.testing.assert_array_equal(whole, [0, 1, 0, 12])


def test_higher_derivatives_of_lgamma_are_polygamma():
    x = np.float64([0.3, 1.0, 2.5, 7.0])
    with cv.enable_x64(True):
        fun = P.lgamma
        for order in range(3):
            fun = lambda v, f=fun: cv.jvp(f, (v,), (np.ones_like(x),))[1]  # noqa: E731
            np.testing.assert_allclose(
                np.asarray(fun(x)), scipy.special.polygamma(order, x), rtol=1e-9
            )


def test_bessel_i1e_near_zero():
    x = np.float32([0, 1e-30, -1e-10, 1e-3])
    np.testing.assert_allclose(tangent(P.bessel_i1e, x), [0.5, 0.5, 0.5, 0.499], rtol=1e-4)


def test_cumlogsumexp_from_minus_infinity():
    x = np.float32([-inf, -inf, 1, 2])
    found = grad_of_sum(ops.cumulative.cumlogsumexp, x)
    share = 1 / (1 + np.e)
    np.testing.assert_allclose(found, [0, 0, 1 + share, 1 - share], rtol=1e-6)


def test_sorting_moves_tangents():
    x = np.float32([3, 1, 2])
    weights = np.float32([10, 20, 30])
    order = grad_of_sum(lambda v: P.mul(ops.sort.sort([v], 0)[0], weights), x)
    np.testing.assert_array_equal(order, [30, 10, 20])
    top = grad_of_sum(lambda v: P.mul(ops.sort.top_k(v, 2, 0)[0], weights[:2]), x)
    np.testing.assert_array_equal(top, [10, 0, 20])


WEAK = [
    (P.exp, 1, True),
    (P.add, 2, True),
    (P.eq, 2, True),
    (P.is_finite, 1, True),
    (P.clamp, 3, True),
    (P.pow_, 2, True),
    (ops.reduce.ReduceSum((0,)), 1, True),
    (ops.reduce.Argmax((0,), np.dtype(np.int32)), 1, False),
    (ops.cumulative.Cumsum(0), 1, True),
    (ops.cast.ConvertElementType(np.dtype(np.float32)), 1, False),
    (ops.cast.BitcastConvertType(np.dtype(np.int32)), 1, False),
    (ops.contract.DotGeneral((((0,), (0,)), ((), ()))), 2, True),
    (ops.sort.Sort(0), 1, True),
]


@pytest.mark.parametrize(("op", "arity", "weak"), WEAK, ids=lambda v: str(v))
def test_weak_types(op, arity, weak):
    loose, firm = (ShapedArray((3,), "float32", w) for w in (True, False))

    def result(*avals):
        out = op.result(*avals)
        return out[0] if op.multiple_results else out

    assert result(*[loose] * arity).weak_type is weak
    assert result(*[firm] * arity).weak_type is False
    if arity > 1:
        assert result(loose, *[firm] * (arity - 1)).weak_type is False


def test_wrong_arguments_are_named():
    f, i = ShapedArray((3,), "float32"), ShapedArray((3,), "int32")
    short, flag = ShapedArray((2,), "float32"), ShapedArray((3,), "bool")
    dot = ops.contract.DotGeneral((((0,), (0,)), ((), ())))
    for op, args, error, words in (
        (P.add, (f, i), TypeError, "add requires arguments to have equal dtypes"),
        (P.add, (f, short), TypeError, r"add: .*\(3,\), \(2,\)"),
        (P.sin, (i,), TypeError, "sin: argument 0 must have a floating point or complex"),
        (P.and_, (f, f), TypeError, "and: argument 0"),
        (P.lt, (ShapedArray((), "complex64"),) * 2, TypeError, "lt: argument 0"),
        (P.select_n, (f, f, f), TypeError, "select_n: `which`"),
        (P.select_n, (flag, f, short), TypeError, "select_n"),
        (P.select_n, (flag,), ValueError, "at least one case"),
        (P.select_n, (flag, f, f, f), TypeError, "two cases; got 3"),
        (P.clamp, (short, f, f), TypeError, "clamp: `min`"),
        (ops.power.IntegerPow(-1), (i,), TypeError, "negative power -1"),
        (ops.reduce.ReduceSum((1,)), (f,), ValueError, "reduce_sum: axes"),
        (ops.reduce.ReduceSum((0,)), (flag,), TypeError, "reduce_sum: argument 0"),
        (ops.reduce.ReduceAnd((0,)), (f,), TypeError, "reduce_and: argument 0"),
        (ops.reduce.Argmax((0,), np.dtype(np.float32)), (f,), TypeError, "index_dtype"),
        (ops.reduce.Argmax((0,), np.dtype(np.int32)), (ShapedArray((0,), "float32"),), ValueError,
         "argmax of an empty axis"),
        (ops.cumulative.Cumsum(1), (f,), ValueError, "cumsum: axis 1"),
        (dot, (f, short), TypeError, "contracting axes must have equal sizes"),
        (ops.cast.BitcastConvertType(np.dtype(np.uint8)), (flag,), TypeError, "bool"),
        (ops.cast.BitcastConvertType(np.dtype(np.int64)), (f,), ValueError, "last axis of 2"),
        (ops.cast.ReducePrecision(0, 3), (f,), ValueError, "exponent_bits"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            op.result(*args)
