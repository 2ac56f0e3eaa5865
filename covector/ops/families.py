"""Families of primitives: what their members share, written once.

`Pointwise`: the same scalar function of each element; `unary` and `binary` declare one in a
statement.  `View`: every output element is an input element at a mapped index.  `LinearOp`: the
derivative is the op itself.  `Bilinear`: the product rule.  `Combining`: elements become fewer, or
run, by one of `WAYS`.  Derivatives are mutually recursive, so ops of other files are named through
the room: `ops.shape.broadcast_in_dim`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from covector import dtypes, ops
from covector._base.config import config
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Linear, Op, Sample
from covector.ir.scalar import Expr, cast, expr
from covector.ir.values import typeof
from covector.ops import _check

#: A part of a tangent: `d(t, out, x)`, `d(t, out, x, y)`, `d(t, out, x, y, z)`.
Tangent1 = Callable[[Any, Any, Any], Any]
Tangent2 = Callable[[Any, Any, Any, Any], Any]
Tangent3 = Callable[[Any, Any, Any, Any, Any], Any]


def rule(method: Callable[..., Any]) -> Any:
    """Marks a rule that members of a family may restate, or declare absent."""
    return method


#: Types of arguments for which a pointwise op remembers the type of its result.
KNOWN: Final = 256


class LinearOp(Op):
    """A linear function of its first argument: jvp applies the op to the tangent."""

    @rule
    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The op itself, of the tangent (the other arguments have none)."""
        out = self(*primals)
        return out, None if tangents[0] is None else self(tangents[0], *primals[1:])


class View(LinearOp):
    """A linear, unary op that only moves elements: `source(ask, index)` maps the index."""

    def result(self, x: ShapedArray) -> ShapedArray:
        """The same dtype and weak type; the shape is `self.out_shape`."""
        return ShapedArray(self.out_shape(x), x.dtype, x.weak_type)

    def out_shape(self, x: ShapedArray) -> tuple[int, ...]:
        """The shape of the result; refuses wrong arguments."""
        raise TypeError(f"{self.name} has no shape rule")

    def source(self, ask: Any, index: Sequence[Any]) -> Sequence[Any]:
        """The index of the input element that stands at `index`."""
        raise TypeError(f"{self.name} has no index map")

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The input element at the mapped index."""
        return ask.at(0, self.source(ask, index))


class Bilinear(Op):
    """Linear in each of two arguments: the product rule, and `pull`, which gives the transposes."""

    arity = 2

    @rule
    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """By the product rule."""
        (x, y), (tx, ty) = primals, tangents
        out = self(x, y)
        if _check.kind(typeof(out).dtype) not in "fc":
            return out, None
        left = None if tx is None else self(tx, y)
        right = None if ty is None else self(x, ty)
        if left is None or right is None:
            return out, right if left is None else left
        return out, ops.pointwise.add(left, right)

    def transpose(self, tools: Any, ct: Any, x: Any, y: Any) -> list[Any]:
        """What `pull` says, for the argument that is the linear one."""
        if isinstance(x, Linear):
            return [self.pull(0, ct, x.aval, y), None]
        return [None, self.pull(1, ct, y.aval, x)]

    def pull(self, k: int, ct: Any, wanted: ShapedArray, other: Any) -> Any:
        """The cotangent of argument `k`, of type `wanted`, by that of the result."""
        raise TypeError(f"{self.name} has no transpose")


class SumOfProducts(Bilinear):
    """Sums of products of two operands: their dtypes may differ, narrow floats are summed wide."""

    def common_dtype(self, lhs: ShapedArray, rhs: ShapedArray) -> Any:
        """The dtype of the result, unless another is preferred; refuses what is no number."""
        for side, aval in (("lhs", lhs), ("rhs", rhs)):
            _check.check_kind(self.name, side, aval, "biufc")
        return _common(lhs.dtype, rhs.dtype)

    def accumulator(self, x: Any, y: Any, out: Any) -> Any:
        """The dtype in which products are summed."""
        wide = _common(_common(dtypes.as_dtype(x), dtypes.as_dtype(y)), dtypes.as_dtype(out))
        return _check.accumulator(wide)

    @staticmethod
    def preference(wanted: ShapedArray, x: Any, y: Any) -> Any:
        """The `preferred_element_type` that makes products of `x` and `y` of dtype `wanted`."""
        same = typeof(x).dtype == typeof(y).dtype == wanted.dtype
        return None if same else wanted.dtype


def _common(x: Any, y: Any) -> Any:
    """The later of two dtypes: by kind, then width, then as XLA has them in order."""
    return x if x == y else max(x, y, key=_rank)


#: In this order, where kinds are unsigned and signed: those of one width are u, i; f16, bf16.
_KINDS: Final = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def _rank(dtype: Any) -> tuple[Any, ...]:
    kind = dtypes.kind_of(dtype)
    width = dtypes.itemsize_bits(dtype)
    # by name: float8_e4m3b11fnuz, float8_e4m3fn, float8_e5m2
    return _KINDS[kind], width, kind == "i", dtype.name == "bfloat16", dtype.name


class Way(NamedTuple):
    """How two elements are combined: NumPy's ufunc, the elementwise op's name, StableHLO's."""

    numpy: Any
    op: str
    hlo: str


#: By the name that loops know (`compiler.loops.program.COMBINE`).
WAYS: Final[dict[str, Way]] = {
    "sum": Way(np.add, "add", "stablehlo.add"),
    "prod": Way(np.multiply, "mul", "stablehlo.multiply"),
    "max": Way(np.maximum, "max", "stablehlo.maximum"),
    "min": Way(np.minimum, "min", "stablehlo.minimum"),
    "and": Way(np.bitwise_and, "and", "stablehlo.and"),
    "or": Way(np.bitwise_or, "or", "stablehlo.or"),
    "xor": Way(np.bitwise_xor, "xor", "stablehlo.xor"),
}


class Combining(Op):
    """Combines elements of its argument.  kind: one of WAYS."""

    arity = 1
    kind: ClassVar[str] = ""
    accepts: ClassVar[str] = "biufc"

    @property
    def way(self) -> Way:
        """How two elements are combined."""
        return WAYS[self.kind]

    @rule
    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """By `tangent`."""
        (x,), (t,) = primals, tangents
        out = self(x)
        return out, None if t is None else self.tangent(t, out, x)

    @rule
    def tangent(self, t: Any, out: Any, x: Any) -> Any:
        """The tangent of the result `out`, by that of the argument `x`."""
        raise TypeError(f"{self.name} has no derivative")

    @rule
    def identity(self, dtype: Any) -> Any:
        """What the combination of no elements gives."""
        kind = self.kind
        if kind in ("max", "min"):
            return worst(kind, dtype)
        if _check.kind(dtype) == "b":
            return kind == "and"
        return {"prod": 1, "and": -1}.get(kind, 0)

    def accumulator(self, dtype: Any) -> Any:
        """The dtype in which elements are combined."""
        return _check.accumulator(dtype) if self.kind in ("sum", "prod") else dtype

    def fold(self, ask: Any, extents: Sequence[Any], element: Callable[..., Expr]) -> Expr:
        """Of the elements at all `k` below `extents`."""
        dtype = ask.dtypes[0]
        wide = self.accumulator(dtypes.as_dtype(dtype)).name
        kind = {"max": "or", "min": "and"}.get(self.kind) if dtype == "bool" else None

        def widened(k: Sequence[Any]) -> Expr:
            return cast(element(k), wide)

        return cast(ask.fold(kind or self.kind, extents, widened), dtype)


def worst(kind: str, dtype: Any) -> Any:
    """The least value of a dtype for 'max', the greatest for 'min'."""
    greatest = kind == "min"
    letter = _check.kind(dtype)
    if letter == "b":
        return greatest
    if letter in "iu":
        info = dtypes.iinfo(dtype)
        return int(info.max if greatest else info.min)
    if np.isinf(np.asarray(np.inf).astype(dtype)):
        return float("inf" if greatest else "-inf")
    info = dtypes.finfo(dtype)  # of a type without infinities
    return float(info.max if greatest else info.min)


class Pointwise(Op):
    """The same function for every element.  Arguments have one shape; scalars are broadcast.

    accepts: kinds of dtypes (`_check.KINDS`); numpy: the meaning; derivatives: for each argument
    `d(t, out, *primals)`, its contribution to the tangent, or None if it has no derivative.
    """

    accepts: ClassVar[str] = "biufc"
    derivatives: ClassVar[Any] = ()
    #: The scalar op of the kernel, where it is not `name`.
    scalar: ClassVar[str] = ""
    #: The StableHLO (or CHLO) op; if there is none, `element` is translated.
    hlo: ClassVar[str] = ""
    #: Whether it is no op of complex numbers.
    real_hlo: ClassVar[bool] = False

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """Common shape, common dtype; weakly typed if all arguments are."""
        if self._fields:
            return self._result(avals)
        # Without parameters there is one object, which sees the same few types again and again.
        known: dict[Any, ShapedArray] = self.__dict__.setdefault("_known", {})
        found = known.get(avals)
        if found is None:
            if len(known) >= KNOWN:
                known.clear()
            found = known[avals] = self._result(avals)
        return found

    def _result(self, avals: Sequence[ShapedArray]) -> ShapedArray:
        if self.arity is not None:
            _check.check_count(self.name, avals, self.arity)
        first = avals[0]
        for aval in avals[1:]:
            if aval is not first:
                dtype = _check.same_dtype(self.name, avals)
                shape = _check.same_shape(self.name, avals)
                weak = all(a.weak_type for a in avals)
                break
        else:
            dtype, shape, weak = first.dtype, first.shape, first.weak_type
        if _check.kind(dtype) not in self.accepts:
            _check.check_kind(self.name, 0, first, self.accepts)
        return ShapedArray(shape, self.out_dtype(dtype), weak)

    def out_dtype(self, dtype: Any) -> Any:
        """The dtype of the result for arguments of `dtype`."""
        return dtype

    @rule
    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The sum of the arguments' contributions."""
        out = self(*primals)
        total = None
        for t, derivative in zip(tangents, self.derivatives, strict=False):
            if t is None or derivative is None:
                continue
            term = derivative(t, out, *primals)
            if term is None:
                continue
            wanted = typeof(out).shape
            if typeof(term).shape != wanted:
                term = ops.shape.broadcast_to(term, wanted)
            total = term if total is None else ops.pointwise.add(total, term)
        return out, total

    @rule
    def batch(
        self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, int]:
        """The op itself, once the batch axes agree."""
        avals = [typeof(a) for a in args]
        batched = {(d, a.ndim) for a, d in zip(avals, dims, strict=True) if d is not None}
        plain = {a.ndim for a, d in zip(avals, dims, strict=True) if d is None}
        if len(batched) == 1 and plain <= {0}:
            return self(*args), next(iter(batched))[0]
        shape = max((_without(a.shape, d) for a, d in zip(avals, dims, strict=True)), key=len)
        return self(*[_front(a, d, shape, size) for a, d in zip(args, dims, strict=True)]), 0

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The scalar function of the arguments' elements."""
        args = [ask.at(k, index if s else ()) for k, s in enumerate(ask.shapes)]
        return self.element(ask.out_dtypes[0], *args)

    def element(self, dtype: str, *args: Expr) -> Expr:
        """One element of the result, of type `dtype`."""
        return expr(self.scalar or self.name, dtype, *args)

    @rule
    def stablehlo(self, writer: Any, *operands: Any) -> Any:
        """One StableHLO op of the operands, scalars broadcast; or what `element` says."""
        shape = writer.out_avals[0].shape
        whole = [writer.broadcast_to(x, shape) for x in operands]
        if self.hlo and not (self.real_hlo and _check.kind(writer.out_avals[0].dtype) == "c"):
            return writer.emit(self.hlo, whole)
        return writer.scalar(self.element, whole)


def _without(shape: tuple[int, ...], dim: int | None) -> tuple[int, ...]:
    return shape if dim is None else shape[:dim] + shape[dim + 1 :]


def _front(x: Any, dim: int | None, shape: tuple[int, ...], size: int) -> Any:
    """`x` as an array of (size, *shape), batch axis first; an unbatched scalar stays as it is."""
    ndim = typeof(x).ndim
    if dim is None:
        if not ndim:
            return x
        return ops.shape.broadcast_in_dim(x, (size, *shape), tuple(range(1, ndim + 1)))
    if ndim == 1 and shape:
        return ops.shape.broadcast_in_dim(x, (size, *shape), (0,))
    return ops.shape.move_axis(x, dim, 0)


def sum_to_aval(ct: Any, aval: ShapedArray) -> Any:
    """The cotangent of an argument that was a broadcast scalar: summed to its shape."""
    given = typeof(ct)
    if given.shape == aval.shape:
        return ct
    return ops.reduce.reduce_sum(ct, tuple(range(given.ndim)))


_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}


def like(x: Any, value: Any) -> Any:
    """The number `value` as a scalar of the dtype of `x`, weakly typed if `x` is and it can be."""
    aval = typeof(x)
    python = _PYTHON.get(_check.kind(aval.dtype)) if aval.weak_type else None
    if python is not None and dtypes.python_scalar_dtype(python) == aval.dtype:
        return python(value)
    narrow = dtypes.canonical(aval.dtype)
    if type(value) is float and narrow is aval.dtype and narrow.char in "fd":
        return narrow.type(value)
    number = np.asarray(value).astype(narrow)[()]
    if narrow == aval.dtype:
        return number
    # of an explicit 64-bit dtype while enable_x64 is off: a NumPy scalar would be narrowed
    return ops.cast.ConvertElementType(aval.dtype)(number)


def scale(t: Any, c: Any) -> Any:
    """`t * c`, where the coefficient `c` may be infinite or NaN: 0 where `t` is 0.

    This keeps a branch that `where` masks from poisoning a gradient.  With the option
    `singular_derivatives='ieee'` it is plain multiplication.
    """
    if isinstance(c, (int, float, np.generic)) and bool(np.isfinite(c)):  # pyright: ignore[reportUnknownArgumentType]
        return ops.pointwise.mul(t, like(t, c))
    if config.singular_derivatives == "ieee":
        return ops.pointwise.mul(t, c)
    return ops.pointwise.scale_tangent(t, c)


def scale_both(s: Any, t: Any) -> Any:
    """`s * t` of two tangents, either of which may be infinite: 0 where one of them is 0."""
    if config.singular_derivatives == "ieee":
        return ops.pointwise.mul(s, t)
    return ops.pointwise.scale_tangents(s, t)


def mean_of_chosen(t: Any, chosen: Any, total: Callable[[Any], Any]) -> Any:
    """The mean of the elements of `t` that are `chosen`, where `total` adds up."""
    where = ops.pointwise.where
    ones = ops.shape.broadcast_to(where(chosen, like(t, 1), like(t, 0)), typeof(chosen).shape)
    return scale(total(where(chosen, t, like(t, 0))), ops.pointwise.reciprocal(total(ones)))


#: The dtypes a sample is made for, by kind.
SAMPLE_DTYPES = {
    "b": ("bool",),
    "i": ("int8", "int32", "int64"),
    "u": ("uint8", "uint32"),
    "f": ("float16", "bfloat16", "float32", "float64"),
    "c": ("complex64", "complex128"),
    "k": (dtypes.threefry_key,),
}


def samples_of(
    name: str, accepts: str, arity: int, domain: tuple[float, float], **how: Any
) -> Callable[[], Iterable[Sample]]:
    """Samples of a pointwise op: every accepted kind, odd shapes, an empty one, scalars mixed."""

    def samples() -> Iterable[Sample]:
        op = ops.by_name(name)
        for letter in accepts:
            for dtype in SAMPLE_DTYPES[letter]:
                yield Sample(op, (ShapedArray((3, 5), dtype),) * arity, domain, **how)
        dtype = next(d for k, d in (("f", "float32"), ("i", "int32"), ("c", "complex64"))
                     if k in accepts)  # fmt: skip
        for shape in ((), (0, 3), (37,)):
            yield Sample(op, (ShapedArray(shape, dtype),) * arity, domain, **how)
        if arity > 1:
            scalar, row = ShapedArray((), dtype), ShapedArray((4,), dtype)
            yield Sample(op, (scalar, *(row,) * (arity - 1)), domain, **how)
            yield Sample(op, (*(row,) * (arity - 1), scalar), domain, **how)

    return samples


def unary(
    name: str,
    accepts: str,
    numpy: Callable[[Any], Any],
    derivative: Tangent1 | None = None,
    *,
    hlo: str = "",
    domain: tuple[float, float] = (-2.0, 2.0),
    smooth: bool = True,
    scale: float = 1.0,
    **rules: Any,
) -> Any:
    """Declare a function of one element; `derivative(t, out, x)` is its tangent.

    Without a derivative: of floats, it is zero wherever it exists; else there is none.
    """
    return _declare(name, accepts, numpy, (derivative,), hlo, domain, smooth, scale, rules)


def binary(
    name: str,
    accepts: str,
    numpy: Callable[[Any, Any], Any],
    derivatives: tuple[Tangent2 | None, Tangent2 | None] = (None, None),
    *,
    hlo: str = "",
    domain: tuple[float, float] = (-2.0, 2.0),
    smooth: bool = True,
    scale: float = 1.0,
    **rules: Any,
) -> Any:
    """Declare a function of two elements; `derivatives[k](t, out, x, y)`: a part of its tangent."""
    return _declare(name, accepts, numpy, derivatives, hlo, domain, smooth, scale, rules)


def _declare(
    name: str,
    accepts: str,
    numpy: Callable[..., Any],
    derivatives: tuple[Any, ...],
    hlo: str,
    domain: tuple[float, float],
    smooth: bool,
    scale: float,
    rules: dict[str, Any],
) -> Any:
    arity = len(derivatives)
    body = {
        "name": name,
        "accepts": accepts,
        "arity": arity,
        "numpy": staticmethod(numpy),
        "derivatives": derivatives,
        "hlo": f"stablehlo.{hlo}" if hlo and "." not in hlo else hlo,
        "transpose": Absent("not linear"),
        "samples": staticmethod(
            samples_of(name, accepts, arity, domain, smooth=smooth, scale=scale)
        ),
        "__module__": __name__,
    }
    if not any(derivatives) and not set(accepts) & set("fc"):
        body["jvp"] = Absent("integer")
    return type(name.title().replace("_", ""), (Pointwise,), {**body, **rules})()


def scipy_special(name: str) -> Callable[..., Any]:
    """A function of `scipy.special`, imported when first called: that takes longer than NumPy."""

    def function(*args: Any) -> Any:
        return getattr(importlib.import_module("scipy.special"), name)(*args)

    return function


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of floats or complex numbers, evaluated in double precision and rounded once."""

    def rounded(*args: Any) -> Any:
        given = args[0].dtype
        if given in (np.float64, np.complex128):
            return np.asarray(function(*args))
        up = np.complex128 if given == np.complex64 else np.float64
        out = np.asarray(function(*(a.astype(up) for a in args)))
        if given == np.complex64:
            return out.astype(np.complex64 if out.dtype.kind == "c" else np.float32)
        return out.astype(given)

    return rounded
