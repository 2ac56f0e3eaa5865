"""Each pass over Jaxprs on a small program: text in, text out."""

import numpy as np
import pytest

import covector as cv
from covector import numpy as cnp
from covector import ops
from covector.compiler.passes.contract import absorb_transposes
from covector.compiler.passes.cse import common_subexpressions
from covector.compiler.passes.dce import dead_code
from covector.compiler.passes.expand import expand
from covector.compiler.passes.fold_constants import fold_constants
from covector.compiler.passes.simplify import simplify
from covector.compiler.passes.sink_views import sink_views
from covector.compiler.passes.split_reductions import split_reductions
from covector.compiler.passes.split_scatters import split_scatters
from covector.compiler.pipeline import PASSES, prepare
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.jaxpr import ClosedJaxpr
from covector.trace.stage import trace_to_jaxpr

point, shape, reduce = ops.pointwise, ops.shape, ops.reduce
convert = ops.cast.convert_element_type
MATMUL = (((1,), (0,)), ((), ()))


def staged(function, *shapes, dtype="float32"):
    return trace_to_jaxpr(function, [ShapedArray(s, dtype) for s in shapes])


def lines(jaxpr):
    """The equations of a program, and its results."""
    return [line.strip() for line in str(jaxpr).splitlines()[1:]]


def check(before, after):
    """A pass must not change what the program computes."""
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(a.shape).astype(a.dtype) for a in before.in_avals]
    wanted = evaluate(before.jaxpr, before.consts, args)
    after = after if isinstance(after, ClosedJaxpr) else ClosedJaxpr(after, before.consts)
    got = evaluate(after.jaxpr, after.consts, args)
    for x, y in zip(wanted, got, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
    return lines(after)


def test_expand_inlines_calls_and_decomposes():
    def inner(x):
        return [point.mul(point.sin(x), x)]

    body = staged(inner, (3,))

    def outer(x):
        (y,) = ops.call.Jit(body, "inner")(x)
        (z,) = ops.call.Jit(body, "inner")(y)
        return [z]

    closed = staged(outer, (3,))
    assert check(closed, expand(closed)) == [
        "b:f32[3] = sin a",
        "c:f32[3] = mul b a",
        "d:f32[3] = sin c",
        "e:f32[3] = mul d c",
        "in (e,) }",
    ]


def test_fold_constants():
    closed = staged(lambda x: [point.mul(x, point.sin(np.float32(0.0)))], (3,))
    assert check(closed, fold_constants(closed.jaxpr))[-2:] == [
        "b:f32[3] = mul a 0.0:f32[]",
        "in (b,) }",
    ]


def test_fold_constants_leaves_what_gives_a_list():
    """A barrier around one literal, as `checkpoint` has where it knows the cotangent: the list of
    one is no scalar."""
    behind = ops.select.optimization_barrier
    closed = staged(lambda x: [point.mul(x, *behind(np.float32(2.0)))], (3,))
    first, *_ = check(closed, fold_constants(closed.jaxpr))
    assert first == "b:f32[] = optimization_barrier 2.0:f32[]"
    gradient = cv.grad(cv.checkpoint(lambda x: cnp.sum(x * cnp.arange(3.0))))
    assert cv.jit(lambda x: gradient(x))(np.ones(3, np.float32)).tolist() == [0.0, 1.0, 2.0]


def test_cse_merges_equal_equations_only():
    def f(x):
        a, b = point.sin(x), point.sin(x)
        return [point.add(a, b), point.mul(x, np.float32(0.0)), point.mul(x, np.float32(-0.0))]

    closed = staged(f, (3,))
    assert check(closed, common_subexpressions(closed.jaxpr)) == [
        "b:f32[3] = sin a",
        "c:f32[3] = add b b",
        "d:f32[3] = mul a 0.0:f32[]",
        "e:f32[3] = mul a -0.0:f32[]",
        "in (c, d, e) }",
    ]


def test_dead_code():
    closed = staged(lambda x: [point.sin(x)], (3,))
    jaxpr = closed.jaxpr.replace(eqns=[*closed.eqns, *staged(lambda x: [point.cos(x)], (3,)).eqns])
    assert check(closed, dead_code(jaxpr)) == ["b:f32[3] = sin a", "in (b,) }"]


def test_dot_general_absorbs_transposes():
    def f(x, y):
        return [ops.contract.dot_general(x, shape.transpose(y, (1, 0)), MATMUL)]

    closed = staged(f, (3, 4), (5, 4))
    text = check(closed, dead_code(absorb_transposes(closed.jaxpr)))
    assert len(text) == 2
    assert "dimension_numbers=(((1,), (1,)), ((), ()))" in text[0]


def test_sink_views():
    def f(x):
        mean = shape.broadcast_in_dim(reduce.reduce_sum(x, (1,)), (3, 1), (0,))
        return [shape.broadcast_in_dim(point.div(mean, np.float32(3.0)), (3, 4), (0, 1))]

    closed = staged(f, (3, 4))
    assert check(closed, dead_code(simplify(sink_views(closed.jaxpr)))) == [
        "b:f32[3] = reduce_sum[axes=(1,)] a",
        "c:f32[3] = div b 3.0:f32[]",
        "d:f32[3,4] = broadcast_in_dim[shape=(3, 4) broadcast_dimensions=(0,)] c",
        "in (d,) }",
    ]


#: name -> (function of x:f32[3,4], what is left of it: equations without their types)
IDENTITIES = {
    "two transposes": (lambda x: shape.transpose(shape.transpose(x, (1, 0)), (1, 0)), []),
    "reshape of reshape": (
        lambda x: shape.reshape(shape.reshape(x, (12,)), (2, 6)),
        ["reshape[new_sizes=(2, 6)] a"],
    ),
    "reshape and back": (lambda x: shape.reshape(shape.reshape(x, (12,)), (3, 4)), []),
    "neg neg": (lambda x: point.neg(point.neg(x)), []),
    "times one": (lambda x: point.mul(x, np.float32(1)), []),
    "over one": (lambda x: point.div(x, np.float32(1)), []),
    "over a power of two": (lambda x: point.div(x, np.float32(8)), ["mul a 0.125:f32[]"]),
    "over three": (lambda x: point.div(x, np.float32(3)), ["div a 3.0:f32[]"]),
    "minus zero": (lambda x: point.sub(x, np.float32(0.0)), []),
    "plus zero stays": (lambda x: point.add(x, np.float32(0.0)), ["add a 0.0:f32[]"]),
    "plus minus zero": (lambda x: point.add(x, np.float32(-0.0)), []),
    "times zero stays": (lambda x: point.mul(x, np.float32(0.0)), ["mul a 0.0:f32[]"]),
    "widen and narrow": (
        lambda x: convert(convert(x, np.dtype("float64")), np.dtype("float32")),
        [],
    ),
    "narrow and widen stays": (
        lambda x: convert(convert(x, np.dtype("float16")), np.dtype("float32")),
        [
            "convert_element_type[new_dtype=float16 weak_type=False] a",
            "convert_element_type[new_dtype=float32 weak_type=False] b",
        ],
    ),
    "one for all": (lambda x: point.max_(x, x), []),
    "mask of a finite coefficient": (
        lambda x: point.scale_tangent(x, shape.broadcast_in_dim(np.float32(2.0), (3, 4), ())),
        ["mul a b"],
    ),
    "sum of nothing": (lambda x: reduce.ReduceSum(())(x), []),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_simplify(name):
    function, wanted = IDENTITIES[name]
    closed = staged(lambda x: [function(x)], (3, 4))
    text = check(closed, dead_code(simplify(closed.jaxpr)))[:-1]
    made = [line.split(" = ", 1)[1] for line in text]
    assert [m for m in made if not m.startswith("broadcast_in_dim")] == wanted


@pytest.mark.parametrize(
    ("new", "steps"), [("uint32", 2), ("int8", 2), ("int64", 1), ("float32", 1), ("int32", 0)]
)
def test_simplify_keeps_casts_that_saturate(new, steps):
    """-2 and 300 by way of a float: the last integers of the new type, not what is left of bits."""

    def f(x):
        return [convert(convert(x, np.dtype("float64")), np.dtype(new))]

    closed = staged(f, (3,), dtype="int32")
    x = np.array([-2, 300, 2**31 - 1], np.int32)
    after = dead_code(simplify(closed.jaxpr))
    assert len(after.eqns) == steps
    wanted, got = evaluate(closed.jaxpr, (), [x]), evaluate(after, (), [x])
    np.testing.assert_array_equal(wanted, got)


def test_simplify_keeps_integer_division():
    closed = staged(lambda x: [point.div(x, np.int32(4))], (3,), dtype="int32")
    assert len(simplify(closed.jaxpr).eqns) == 1


def test_every_pass_says_why_it_stands_where_it_does():
    assert len({p.name for p in PASSES}) == len(PASSES)
    assert all(p.reason for p in PASSES)


def test_prepare_lifts_constants_of_nested_programs():
    """An array captured by a loop's body becomes an operand: it is not part of the code."""
    table = np.arange(6, dtype="float32").reshape(2, 3)
    cond = staged(lambda i, x: [point.lt(i, np.float32(3))], (), (2, 3))
    body = staged(lambda i, x: [point.add(i, np.float32(1)), point.add(x, table)], (), (2, 3))
    assert len(body.consts) == 1

    def f(i, x):
        return ops.control.While(cond, body, 0, 0)(i, x)

    prepared = prepare(staged(f, (), (2, 3)))
    (eqn,) = prepared.eqns
    assert len(prepared.consts) == 1
    assert eqn.op.params["body_nconsts"] == 1
    assert not eqn.op.params["body_jaxpr"].consts


@pytest.mark.parametrize(
    ("given", "axes", "first"),
    [((64, 128, 128), (0, 1, 2), 64), ((1 << 19,), (0,), 64), ((700, 4000), (0, 1), 50)],
)
def test_long_reductions_in_two_stages(given, axes, first):
    closed = staged(lambda x: [reduce.ReduceSum(axes)(x)], given)
    after = split_reductions(closed.jaxpr)
    check(closed, after)
    assert [e.op.name for e in after.eqns] == ["reshape", "reduce_sum", "reduce_sum"]
    assert first in after.eqns[1].outvars[0].aval.shape


def test_short_reductions_stay():
    for given, axes in (((100, 100), (0, 1)), ((1000, 1000), (1,)), ((1048583,), (0,))):
        closed = staged(lambda x, axes=axes: [reduce.ReduceMax(axes)(x)], given)
        assert len(split_reductions(closed.jaxpr).eqns) == 1


def scattered(kind, x, indices, updates, window=()):
    numbers = ops._place.ScatterDimensionNumbers(window, (0,), (0,))
    return ops.scatter.scatter(x, indices, updates, numbers, kind=kind)


@pytest.mark.parametrize("kind", ["ScatterAdd", "ScatterSub", "ScatterMul", "ScatterMin"])
@pytest.mark.parametrize("count", [1 << 18, (1 << 17) + 5])
def test_many_updates_of_few_elements_in_parts(kind, count):
    rng = np.random.default_rng(1)
    indices = rng.integers(-3, 12, (count, 1)).astype(np.int32)

    def f(x, updates):
        scale = np.float32(1e-6)
        updates = point.add(point.mul(updates, scale), np.float32(1))
        return [scattered(getattr(ops.scatter, kind), x, indices, updates)]

    closed = staged(f, (10,), (count,))
    text = check(closed, split_scatters(closed.jaxpr))
    tables = [line for line in text if "f32[16,10]" in line]
    assert len(tables) == 2  # filled, and scattered into
    assert sum("scatter" in line for line in text) == (1 if count % 16 == 0 else 2)


def test_scatters_of_whole_rows_or_of_few_updates_stay_whole():
    indices = np.zeros((1 << 12, 1), np.int32)
    for rows, many in ((2000, False), (4, True)):
        closed = staged(
            lambda x, u: [scattered(ops.scatter.ScatterAdd, x, indices, u, (1,))],
            (rows, 64), (1 << 12, 64),
        )  # fmt: skip
        assert (len(split_scatters(closed.jaxpr).eqns) > 1) == many
    closed = staged(
        lambda x, u: [scattered(ops.scatter.ScatterAdd, x, indices, u)], (10,), (1 << 12,)
    )
    assert len(split_scatters(closed.jaxpr).eqns) == 1
