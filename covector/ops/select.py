"""Elementwise choice (`select_n`, `clamp`), and identities that mean something to a transformation
or to the compiler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Linear, Op, Sample
from covector.ir.scalar import Expr, compare, select
from covector.ir.values import typeof
from covector.ops import _check, arithmetic
from covector.ops._check import np_where
from covector.ops.families import Pointwise, Tangent3, like, sum_to_aval


class SelectN(Pointwise):
    """Of several cases the one that `which` numbers: False/True, or an integer, clamped."""

    name = "select_n"
    accepts = "biufck"

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The common dtype of the cases; the shape of them and of `which`, unless it is scalar."""
        which, *cases = avals
        if not cases:
            raise ValueError("select_n() must have at least one case")
        if _check.kind(which.dtype) not in "biu":
            raise TypeError(
                f"select_n: `which` must have a boolean or integer dtype; got {which.str_short()}"
            )
        if which.dtype == np.bool_ and len(cases) > 2:
            raise TypeError(
                f"select_n: a boolean `which` chooses between two cases; got {len(cases)}"
            )
        dtype = _check.same_dtype("select_n", cases)
        shape = _check.same_shape("select_n", cases)
        if which.shape and shape and which.shape != shape:
            raise TypeError(
                f"select_n: `which` must be scalar or have the shape of the cases: "
                f"got {which.shape} and cases of shape {shape}"
            )
        return ShapedArray(shape or which.shape, dtype, all(a.weak_type for a in cases))

    @staticmethod
    def numpy(which: Any, *cases: Any) -> Any:
        """A chain of NumPy's `where`."""
        out = cases[-1]
        for k in range(len(cases) - 2, -1, -1):
            # of two cases the boolean False, of several any number up to k, means case k
            out = np_where(~which if which.dtype == np.bool_ else which <= k, cases[k], out)
        return np.broadcast_to(out, np.broadcast_shapes(np.shape(out), np.shape(which)))

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The choice between the tangents."""
        out = self(*primals)
        if all(t is None for t in tangents[1:]):
            return out, None
        cases = zip(primals[1:], tangents[1:], strict=True)
        tangent = self(primals[0], *(like(p, 0) if t is None else t for p, t in cases))
        return out, ops.shape.broadcast_to(tangent, typeof(out).shape)

    def transpose(self, tools: Any, ct: Any, which: Any, *cases: Any) -> list[Any]:
        """To each linear case the cotangent where it was chosen."""
        zero = like(ct, 0)
        out: list[Any] = [None]
        for k, case in enumerate(cases):
            if isinstance(case, Linear):
                mine = self(which, *(ct if j == k else zero for j in range(len(cases))))
                out.append(sum_to_aval(mine, case.aval))
            else:
                out.append(None)
        return out

    def element(self, dtype: str, *args: Expr) -> Expr:
        """A chain of selects."""
        which, *cases = args
        value = cases[-1]
        for k in range(len(cases) - 2, -1, -1):
            mine = ~which if which.dtype == "bool" else compare("le", which, k)
            value = select(mine, cases[k], value)
        return value

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.select for two cases, else what `element` says."""
        shape = writer.out_avals[0].shape
        which, *cases = (writer.broadcast_to(x, shape) for x in operands)
        if len(cases) == 2 and writer.aval(which).dtype == np.bool_:
            return writer.emit("stablehlo.select", [which, cases[1], cases[0]])
        return writer.scalar(self.element, [which, *cases])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Boolean and integer choice, scalar and not, one to four cases, every kind of dtype."""
        flags, scalar = ShapedArray((3, 5), "bool"), ShapedArray((), "bool")
        for dtype in ("bool", "int8", "int32", "bfloat16", "float32", "complex64",
                      dtypes.threefry_key):  # fmt: skip
            yield Sample(select_n, (flags, *(ShapedArray((3, 5), dtype),) * 2))
        x = ShapedArray((4,), "float32")
        yield Sample(select_n, (scalar, x, x))
        yield Sample(select_n, (np.bool_([True, False, True, True]), x))
        for which in (
            np.array([0, 3, -1, 9], np.int32),
            np.array([1, 2, 3, 200], np.uint8),
            np.array([2, 1, 0, 1], np.int64),
        ):
            yield Sample(select_n, (which, x, x, x, x))
        yield Sample(select_n, (np.int32(1), x, x, x))


class Clamp(Pointwise):
    """`x` within [low, high]: min(max(x, low), high)."""

    name = "clamp"
    arity = 3
    accepts = "biufc"
    transpose = Absent("not linear")

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The shape of `x`; the bounds are scalars or of that shape."""
        _check.check_count("clamp", avals, 3)
        low, x, high = avals
        for what, bound in (("min", low), ("max", high)):
            if bound.shape not in ((), x.shape):
                raise TypeError(
                    f"clamp: `{what}` must be a scalar or have the shape of the operand, "
                    f"{x.shape}; got {bound.shape}"
                )
        return super().result(*avals)

    @staticmethod
    def numpy(low: Any, x: Any, high: Any) -> Any:
        """The extrema."""
        return arithmetic.min_.numpy(arithmetic.max_.numpy(x, low), high)

    derivatives: ClassVar[tuple[Tangent3, Tangent3, Tangent3]] = (
        lambda t, out, low, x, high: _where_less(x, low, _where_less(low, high, t)),
        lambda t, out, low, x, high: _where_less(low, x, _where_less(x, high, t)),
        lambda t, out, low, x, high: _where_less(high, arithmetic.max_(x, low), t),
    )

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangent of whichever is strictly chosen; complex numbers by the extrema's rules."""
        if _check.kind(typeof(primals[1]).dtype) != "c":
            return super().jvp(tools, primals, tangents)
        low, x, high = primals
        inner, t = arithmetic.max_.jvp(tools, (x, low), (tangents[1], tangents[0]))
        _, t = arithmetic.min_.jvp(tools, (inner, high), (t, tangents[2]))
        return self(*primals), t

    def element(self, dtype: str, *args: Expr) -> Expr:
        """Two extrema."""
        low, x, high = args
        return arithmetic.min_.element(dtype, arithmetic.max_.element(dtype, x, low), high)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Scalar bounds and arrays; every kind of dtype."""
        for dtype in ("bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64"):
            x = ShapedArray((3, 5), dtype)
            yield Sample(clamp, (x, x, x))
            if dtype != "complex64":
                bound = ShapedArray((), dtype)
                yield Sample(clamp, (bound, x, bound))


def _where_less(x: Any, y: Any, t: Any) -> Any:
    """`t` where x < y, else 0."""
    return select_n(ops.compare.lt(x, y), like(t, 0), t)


class StopGradient(Pointwise):
    """The identity; its tangent is zero."""

    name = "stop_gradient"
    arity = 1
    accepts = "biufck"
    derivatives = (None,)
    transpose = Absent("not linear")

    @staticmethod
    def numpy(x: Any) -> Any:
        """The identity."""
        return x

    def element(self, dtype: str, *args: Expr) -> Expr:
        """The identity."""
        return args[0]

    def stablehlo(self, writer: Any, x: Any) -> Any:
        """The identity."""
        return x

    @staticmethod
    def samples() -> Iterable[Sample]:
        """A float, an integer."""
        yield Sample(stop_gradient, (ShapedArray((3,), "float32"),), smooth=False)
        yield Sample(stop_gradient, (ShapedArray((3,), "int32"),), smooth=False)


class OptimizationBarrier(Op):
    """The identity of all its arguments, which the compiler does not look through."""

    name = "optimization_barrier"
    multiple_results = True

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The arguments'."""
        return avals

    @staticmethod
    def numpy(*arrays: Any) -> Any:
        """The identity."""
        return arrays

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """A barrier for the primals, one for the tangents."""
        given = [t for t in tangents if t is not None]
        rest = iter(self(*given) if given else ())
        return self(*primals), [None if t is None else next(rest) for t in tangents]

    def transpose(self, tools: Any, cts: Sequence[Any], *args: Any) -> list[Any]:
        """A barrier for the cotangents."""
        given = [ct for ct in cts if ct is not None]
        rest = iter(self(*given))
        return [None if ct is None else next(rest) for ct in cts]

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """Nothing moves."""
        return self(*args), list(dims)

    def decompose(self, *args: Any) -> list[Any]:
        """The arguments themselves."""
        return list(args)

    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """stablehlo.optimization_barrier."""
        return writer.emit("stablehlo.optimization_barrier", operands)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Two arrays of different shapes."""
        yield Sample(
            OptimizationBarrier(), (ShapedArray((3,), "float32"), ShapedArray((2,), "int32"))
        )


select_n, clamp, stop_gradient = SelectN(), Clamp(), StopGradient()
optimization_barrier = OptimizationBarrier()
