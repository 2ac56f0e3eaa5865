"""`random_gamma`: gamma numbers, each by rejection with a key of its own, and their derivative.

Here all run in lock step: those that have been accepted wait for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from covector import dtypes, ops
from covector._base.config import enable_x64
from covector.ir.avals import ShapedArray
from covector.ir.interpret import evaluate
from covector.ir.op import Absent, Op, Sample
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.control import While
from covector.ops.families import like, scale
from covector.ops.random_floats import standard_normal, unit_interval
from covector.trace.stage import trace_to_jaxpr

#: The series and the fraction end by themselves long before, but for NaN.
_MOST_TERMS = 2000


def _loop(
    name: str,
    going: Callable[..., Any],
    step: Callable[..., list[Any]],
    fixed: Sequence[Any],
    carry: Sequence[Any],
) -> list[Any]:
    """`while any(going(*carry)): carry = step(*fixed, *carry)`."""
    avals = [typeof(x) for x in carry]

    def some(*values: Any) -> list[Any]:
        out = going(*values)
        return [ops.reduce.reduce_or(out, tuple(range(typeof(out).ndim)))]

    cond = trace_to_jaxpr(some, avals, f"{name}_goes_on")
    body = trace_to_jaxpr(step, [*(typeof(x) for x in fixed), *avals], name)
    return While(cond, body, 0, len(fixed))(*fixed, *carry)


def _split(keys: Any, count: int) -> list[Any]:
    return list(ops.shape.unstack(ops.random_bits.random_split(keys, (count,)), typeof(keys).ndim))


def _full(x: Any, value: Any) -> Any:
    return ops.shape.broadcast_in_dim(like(x, value), typeof(x).shape, ())


class RandomGamma(Op):
    """A gamma number of shape parameter alpha (and scale 1) from each key; or its logarithm.

    G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", ACM Transactions
    on Mathematical Software 26 (2000).  For alpha < 1, one for alpha + 1 times u**(1 / alpha).
    """

    name = "random_gamma"
    arity = 2
    log_space: bool

    transpose = Absent("not linear")

    def result(self, keys: ShapedArray, alpha: ShapedArray) -> ShapedArray:
        """As alpha, whose shape that of the keys must be."""
        _check.check_kind(self.name, 0, keys, "k")
        _check.check_kind(self.name, 1, alpha, "f")
        if keys.shape != alpha.shape:
            raise TypeError(
                f"random_gamma: there must be a key for every alpha; got keys of shape "
                f"{keys.shape} and alpha of shape {alpha.shape}"
            )
        return alpha.strong()

    def numpy(self, keys: Any, alpha: Any) -> Any:
        """The decomposition, evaluated in NumPy."""
        avals = [
            ShapedArray(keys.shape, dtypes.threefry_key),
            ShapedArray(alpha.shape, alpha.dtype),
        ]
        with enable_x64(True):  # the constants of a float64 program are not to be narrowed
            program = trace_to_jaxpr(self._outputs, avals, self.name)
        return evaluate(program.jaxpr, program.consts, [keys, alpha])[0]

    def decompose(self, keys: Any, alpha: Any) -> Any:
        """Rejection, then what a small alpha needs."""
        point = ops.pointwise
        large = ops.compare.ge(alpha, like(alpha, 1))
        raised = point.where(large, alpha, point.add(alpha, like(alpha, 1)))
        keys, for_boost = _split(keys, 2)
        d = point.sub(raised, like(alpha, 1 / 3))
        v = _accepted(keys, d)
        u = point.sub(like(alpha, 1), unit_interval(for_boost, (), typeof(alpha).dtype))
        power = point.reciprocal(alpha)
        if not self.log_space:
            boost = point.where(large, like(alpha, 1), point.pow_(u, power))
            return point.mul(point.mul(d, v), boost)
        boost = point.where(large, like(alpha, 0), point.mul(point.log(u), power))
        return point.add(point.add(point.log(d), point.log(v)), boost)

    def _outputs(self, keys: Any, alpha: Any) -> list[Any]:
        return [self.decompose(keys, alpha)]

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """By the implicit function theorem: F(x; alpha) stays (see `_slope`)."""
        keys, alpha = primals
        out = self(keys, alpha)
        if tangents[1] is None:
            return out, None
        log_x = out if self.log_space else ops.pointwise.log(out)
        slope = _slope(alpha, log_x)
        return out, scale(tangents[1], slope if self.log_space else ops.pointwise.mul(out, slope))

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The op itself, the batch axis first in both."""
        moved = [
            ops.shape.broadcast_in_dim(
                x, (size, *typeof(x).shape), tuple(range(1, typeof(x).ndim + 1))
            )
            if d is None
            else ops.shape.move_axis(x, d, 0)
            for x, d in zip(args, dims, strict=True)
        ]
        return self(*moved), 0

    def stablehlo(self, writer: Any, keys: Any, alpha: Any) -> Any:
        """As `decompose` says."""
        return writer.lower(self._outputs, [keys, alpha])[0]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Both forms, both widths, below and above 1, one and none."""
        for log_space in (False, True):
            for shape, dtype in (((5,), "float32"), ((2, 3), "float64"), ((), "float32"),
                                 ((0,), "float32")):  # fmt: skip
                args = (ShapedArray(shape, dtypes.threefry_key), ShapedArray(shape, dtype))
                yield Sample(RandomGamma(log_space), args, (0.3, 3.0), smooth=False, scale=8.0)


def _accepted(keys: Any, d: Any) -> Any:
    """The v = (1 + c x)**3, x normal, that Marsaglia's and Tsang's test accepts."""
    point, dtype = ops.pointwise, typeof(d).dtype
    c = point.div(like(d, 1 / 3), point.sqrt(d))

    def going(key: Any, for_x: Any, for_u: Any, v: Any, waits: Any) -> Any:
        return waits

    def step(d: Any, c: Any, key: Any, for_x: Any, for_u: Any, v: Any, waits: Any) -> list[Any]:
        next_x, this_x = _split(for_x, 2)
        x = standard_normal(this_x, (), dtype)
        root = point.add(like(d, 1), point.mul(x, c))
        x2, new = point.mul(x, x), point.mul(point.mul(root, root), root)
        u = unit_interval(for_u, (), dtype)
        squeeze = point.sub(like(d, 1), point.mul(point.mul(like(d, 0.0331), x2), x2))
        bound = point.add(
            point.mul(x2, like(d, 0.5)),
            point.mul(d, point.add(point.sub(like(d, 1), new), point.log(new))),
        )
        fits = point.or_(point.lt(u, squeeze), point.lt(point.log(u), bound))
        positive = point.gt(root, like(d, 0))
        fits = point.and_(positive, fits)
        # with x refused for its sign only x is drawn again; else a new round begins
        again = point.and_(positive, point.not_(fits))
        fresh = _split(key, 3)
        after = [
            point.where(waits, point.where(again, f, o), k)
            for f, o, k in zip(fresh, (key, next_x, for_u), (key, for_x, for_u), strict=True)
        ]
        v = point.where(waits, new, v)
        return [*after, v, point.and_(waits, point.not_(fits))]

    waits = point.eq(_full(d, 0), _full(d, 0))
    return _loop("random_gamma", going, step, [d, c], [*_split(keys, 3), _full(d, 1), waits])[3]


def _slope(a: Any, log_x: Any) -> Any:
    """d log x / da where the distribution function P(a, x) stays: -(dP/da) / (x dP/dx).

    Of the power series of P, or of the continued fraction of 1 - P where x > max(a, 1) (W.
    Gautschi, "A computational procedure for incomplete gamma functions", ACM TOMS 5, 1979),
    differentiated term by term (M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization
    gradients", 2018).
    """
    point = ops.pointwise
    x, one = point.exp(log_x), like(a, 1)
    far = point.and_(point.gt(x, one), point.gt(x, a))
    # of both ways the one that is not wanted gets an argument that it is quick with
    total, total_slope = _series(a, point.where(far, one, x))
    quotient, quotient_slope = _fraction(a, point.where(far, x, point.add(a, like(a, 9))))
    rest = point.sub(log_x, point.digamma(a))
    near = point.add(point.mul(total, point.sub(rest, point.reciprocal(a))), total_slope)
    return point.where(
        far,
        point.add(point.mul(quotient, rest), quotient_slope),
        point.div(near, point.neg(a)),
    )


def _moves(change: Any, value: Any) -> Any:
    """Whether a term still changes a sum."""
    point = ops.pointwise
    least = like(value, float(dtypes.finfo(typeof(value).dtype).eps))
    return point.gt(point.abs_(change), point.mul(least, point.abs_(value)))


def _series(a: Any, x: Any) -> tuple[Any, Any]:
    """S = sum of x**n / ((a + 1) … (a + n)), and dS/da."""
    point, start, none = ops.pointwise, _full(a, 1), _full(a, 0)

    def going(n: Any, term: Any, term_slope: Any, total: Any, slope: Any) -> Any:
        moves = point.or_(_moves(term, total), _moves(term_slope, slope))
        return point.and_(moves, point.lt(n, like(n, _MOST_TERMS)))

    def step(a: Any, x: Any, n: Any, term: Any, term_slope: Any, total: Any, slope: Any) -> Any:
        n = point.add(n, like(n, 1))
        factor = point.div(x, point.add(a, n))
        new = point.mul(term, factor)
        new_slope = point.sub(point.mul(term_slope, factor), point.div(new, point.add(a, n)))
        return [n, new, new_slope, point.add(total, new), point.add(slope, new_slope)]

    out = _loop("gamma_series", going, step, [a, x], [none, start, none, start, none])
    return out[3], out[4]


def _fraction(a: Any, x: Any) -> tuple[Any, Any]:
    """F with 1 - P = F x**a e**-x / gamma(a), and dF/da: by the convergents p / q of a fraction."""
    point = ops.pointwise
    dtype = typeof(a).dtype
    big = 1 / float(dtypes.finfo(dtype).eps)

    def going(n: Any, f: Any, df: Any, old: Any, old_slope: Any, *others: Any) -> Any:
        moves = point.or_(_moves(point.sub(f, old), f), _moves(point.sub(df, old_slope), df))
        return point.and_(moves, point.lt(n, like(n, _MOST_TERMS)))

    def step(a: Any, x: Any, n: Any, f: Any, df: Any, *rest: Any) -> list[Any]:
        p1, q1, p2, q2, dp1, dq1, dp2, dq2 = rest[2:]
        n = point.add(n, like(n, 1))
        m = point.add(n, like(n, 1))
        y = point.mul(point.sub(m, a), n)  # its derivative is -n, that of z -1
        z = point.add(point.sub(x, a), point.add(m, m))

        def next_of(v1: Any, v2: Any, dv1: Any, dv2: Any) -> tuple[Any, Any]:
            v = point.sub(point.mul(v1, z), point.mul(v2, y))
            dv = point.sub(point.mul(dv1, z), point.mul(dv2, y))
            return v, point.add(point.sub(dv, v1), point.mul(v2, n))

        (p, dp), (q, dq) = next_of(p1, p2, dp1, dp2), next_of(q1, q2, dq1, dq2)
        new = point.div(p, q)
        new_slope = point.div(point.sub(dp, point.mul(new, dq)), q)
        too_big = point.gt(point.abs_(p), like(p, big))
        kept = [
            point.where(too_big, point.mul(v, like(v, 1 / big)), v)
            for v in (p, q, p1, q1, dp, dq, dp1, dq1)
        ]
        return [n, new, new_slope, f, df, *kept]

    none, p1 = _full(a, 0), point.add(x, like(x, 1))
    q1 = point.mul(point.sub(point.add(x, like(x, 2)), a), x)
    first = point.div(p1, q1)
    slope = point.div(point.mul(first, x), q1)
    start = [none, first, slope, none, none, p1, q1, _full(a, 1), x, none, point.neg(x), none, none]
    out = _loop("gamma_fraction", going, step, [a, x], start)
    return out[1], out[2]
