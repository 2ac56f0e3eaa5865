"""What operations on matrices share: shapes, masks, products, text for XLA, samples.

Matrices are the last two axes of an array, vectors the last one; axes before them are a batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Op
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import like, rule

INT32 = np.dtype(np.int32)
#: The dtypes for which LAPACK has routines, by the letter of their names.
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class MatrixOp(Op):
    """An operation on the last axes of its arguments: more batch axes go in front."""

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """The batch axis goes first."""
        moved = [ops.pieces.batch_axis_first(x, d, size) for x, d in zip(args, dims, strict=True)]
        out = self(*moved)
        return (out, [0] * len(out)) if self.multiple_results else (out, 0)


class Factorisation(MatrixOp):
    """Several results of one matrix, or of each of a batch; no linear function."""

    multiple_results = True
    arity = 1
    transpose = Absent("not linear")

    @rule
    def decompose(self, a: Any) -> list[Any]:
        """Nothing of nothing."""
        return [ops.shape.zeros(out) for out in self.result(typeof(a))]


# Types


def check_matrices(op: str, x: ShapedArray, square: bool = False, argument: str = "argument 0",
                   ndim: int = 2) -> None:  # fmt: skip
    """Refuse what is no (batch of) matrices of a dtype that LAPACK knows."""
    if x.ndim < ndim:
        raise TypeError(
            f"{op}: {argument} must have at least {ndim} dimensions; got {x.str_short()}"
        )
    check_dtype(op, x, argument)
    if square and x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{op}: {argument} must be square matrices, of shape [..., n, n]; got {x.str_short()}"
        )


def check_dtype(op: str, x: ShapedArray, argument: str = "argument 0") -> None:
    """Refuse a dtype that LAPACK doesn't know."""
    if getattr(x.dtype, "name", "") not in LETTERS:
        kind = NotImplementedError if _check.kind(x.dtype) == "f" else TypeError
        raise kind(
            f"{op}: {argument} must be of dtype float32, float64, complex64 or complex128; "
            f"got {x.str_short()}"
        )


def check_batch(op: str, core: Sequence[int], *avals: ShapedArray) -> tuple[int, ...]:
    """The one batch shape of arguments that have `core` more axes; refuses different ones."""
    shapes = [a.shape[: a.ndim - n] for a, n in zip(avals, core, strict=True)]
    if any(s != shapes[0] for s in shapes):
        raise TypeError(
            f"{op}: arguments must have equal batch dimensions; got {shapes[0]} and "
            f"{', '.join(str(s) for s in shapes[1:])} of {', '.join(a.str_short() for a in avals)}"
        )
    return shapes[0]


def real_dtype(dtype: Any) -> np.dtype:
    """The dtype of the parts of `dtype`."""
    return np.dtype(np.float32 if dtype in (np.float32, np.complex64) else np.float64)


def complex_dtype(dtype: Any) -> np.dtype:
    """The complex dtype of the precision of `dtype`."""
    return np.dtype(np.complex64 if real_dtype(dtype) == np.float32 else np.complex128)


def epsilon(dtype: Any) -> float:
    """The rounding error of one operation on the parts of `dtype`."""
    return float(np.finfo(real_dtype(dtype)).eps)


def is_complex(x: Any) -> bool:
    """Whether elements of `x` (a value, or an aval) are complex."""
    aval = x if isinstance(x, ShapedArray) else typeof(x)
    return _check.kind(aval.dtype) == "c"


# In terms of operations


def conj(x: Any) -> Any:
    """The conjugate, of complex numbers."""
    return ops.pointwise.conj(x) if is_complex(x) else x


def real(x: Any) -> Any:
    """The real part."""
    return ops.pointwise.real(x) if is_complex(x) else x


def as_dtype_of(x: Any, other: Any) -> Any:
    """Real `x` in the dtype of `other`, which may be complex."""
    dtype = typeof(other).dtype
    return x if typeof(x).dtype == dtype else ops.cast.convert_element_type(x, dtype)


def transposed(x: Any) -> Any:
    """The last two axes swapped."""
    ndim = typeof(x).ndim
    return ops.shape.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return transposed(conj(x))


def matmul(x: Any, y: Any) -> Any:
    """The product of matrices, in full precision."""
    batch = tuple(range(typeof(x).ndim - 2))
    n = len(batch)
    numbers = (((n + 1,), (n,)), (batch, batch))
    return ops.contract.dot_general(x, y, numbers, "highest")


def rows_and_columns(x: Any) -> tuple[Any, Any]:
    """Each element's row and column."""
    shape = typeof(x).shape
    return tuple(ops.shape.iota(INT32, shape, len(shape) - d) for d in (2, 1))  # pyright: ignore[reportReturnType]


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, else `y`; one of them may be a number."""
    x = like(y, x) if isinstance(x, (int, float)) else x
    y = like(x, y) if isinstance(y, (int, float)) else y
    return ops.pointwise.where(condition, x, y)


def triangle(x: Any, lower: bool, strict: bool = False) -> Any:
    """The lower or upper triangle, zeros elsewhere; `strict`: without the diagonal."""
    rows, columns = rows_and_columns(x)
    point = ops.pointwise
    compare = (point.gt if strict else point.ge) if lower else (point.lt if strict else point.le)
    return where(compare(rows, columns), x, 0)


def identity_like(x: Any) -> Any:
    """Identity matrices of the shape of `x`."""
    rows, columns = rows_and_columns(x)
    return ops.cast.convert_element_type(ops.pointwise.eq(rows, columns), typeof(x).dtype)


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices, as vectors."""
    rows, columns = rows_and_columns(x)
    ndim = typeof(x).ndim
    kept = where(ops.pointwise.eq(rows, columns), x, 0)
    return ops.reduce.reduce_sum(kept, (ndim - 1,))


def as_rows(v: Any, rows: int) -> Any:
    """A vector as each row of a matrix."""
    shape = typeof(v).shape
    wanted = (*shape[:-1], rows, shape[-1])
    return ops.shape.broadcast_in_dim(v, wanted, (*range(len(shape) - 1), len(shape)))


def as_columns(v: Any, columns: int) -> Any:
    """A vector as each column of a matrix."""
    shape = typeof(v).shape
    return ops.shape.broadcast_in_dim(v, (*shape, columns), tuple(range(len(shape))))


def scale_columns(x: Any, v: Any) -> Any:
    """Column j times element j of a vector, which may be real."""
    return ops.pointwise.mul(x, as_dtype_of(as_rows(v, typeof(x).shape[-2]), x))


def scale_rows(v: Any, x: Any) -> Any:
    """Row i times element i of a vector, which may be real."""
    return ops.pointwise.mul(as_dtype_of(as_columns(v, typeof(x).shape[-1]), x), x)


def hermitian(x: Any, lower: bool = True) -> Any:
    """The Hermitian matrices that have this lower (or upper) triangle; the diagonal is real."""
    half = triangle(x, lower, strict=True)
    rows, columns = rows_and_columns(x)
    middle = as_dtype_of(real(x), x)
    both = ops.pointwise.add(half, adjoint(half))
    return ops.pointwise.add(both, where(ops.pointwise.eq(rows, columns), middle, 0))


def symmetrized(x: Any) -> Any:
    """The Hermitian part, (x + xᴴ) / 2."""
    point = ops.pointwise
    return point.mul(point.add(x, adjoint(x)), like(x, 0.5))


def inverse_gaps(w: Any, guarded: bool = True) -> Any:
    """A matrix of 1 / (w[j] - w[i]); 0 for values that are equal up to rounding.

    Equal values' vectors are an arbitrary basis: only turning within their space is left out, which
    results that don't depend on the choice don't see.  Unless `guarded`, only the diagonal is 0.
    """
    point, n, ndim = ops.pointwise, typeof(w).shape[-1], typeof(w).ndim
    gaps = point.sub(as_rows(w, n), as_columns(w, n))
    if guarded:
        size = absolute(w)
        slack = max(n, 10) * epsilon(typeof(w).dtype)
        bound = ops.reduce.reduce_max(size, (ndim - 1,))
        bound = point.mul(bound, like(bound, slack))
        full = ops.shape.broadcast_in_dim(bound, typeof(gaps).shape, tuple(range(ndim - 1)))
        equal = point.le(absolute(gaps), full)
    else:
        equal = point.eq(*rows_and_columns(gaps))
    return where(equal, 0, point.reciprocal(where(equal, 1, gaps)))


def absolute(x: Any) -> Any:
    """Absolute values, for comparisons alone."""
    return ops.pointwise.abs_(ops.select.stop_gradient(x))


def full_nan(aval: ShapedArray) -> Any:
    """NaN everywhere."""
    return ops.shape.full(aval.shape, np.nan, aval.dtype)


def composite_jvp(
    tools: Any, fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """The tangents of `fun(*primals)`, a list of results in terms of operations."""
    program = tools.trace(fun, [typeof(x).strong() for x in primals])
    moving = [t is not None for t in tangents]
    wanted = [True] * len(program.jaxpr.outvars)
    forward, _ = tools.jvp_jaxpr(program, moving, wanted)
    found = tools.call(forward, [*primals, *(t for t in tangents if t is not None)])
    return found[len(wanted) :]


def listed(fun: Callable[..., Any]) -> Callable[..., list[Any]]:
    """`fun`, with its one result in a list."""
    return lambda *args: [fun(*args)]


def refuse_derivative(op: str, why: str) -> Any:
    """Raises the error of an operation that has neither derivative nor transpose."""
    raise NotImplementedError(f"{op} has no derivative, and so no transpose: {why}")


# NumPy


def each(fun: Callable[..., Any], core: Sequence[int], outs: Sequence[ShapedArray],
         *arrays: np.ndarray) -> list[np.ndarray]:  # fmt: skip
    """`fun` of each example of the batch, stacked; argument k has `core[k]` axes of its own."""
    batch = arrays[0].shape[: arrays[0].ndim - core[0]]
    results = [np.zeros(o.shape, o.dtype) for o in outs]
    for index in np.ndindex(*batch):
        found = fun(*(a[index] for a in arrays))
        for r, f in zip(results, found, strict=True):
            r[index] = f
    return results


def guarded(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`, whose results are all NaN where an argument isn't finite or SciPy gives up."""

    def run(*args: Any) -> Any:
        try:
            if not all(np.isfinite(a).all() for a in args):
                raise np.linalg.LinAlgError
            return fun(*args)
        except np.linalg.LinAlgError:
            found = fun(*(np.zeros_like(a) for a in args))
            return [np.full_like(f, np.nan) for f in found]

    return run


def scipy_linalg() -> Any:
    """`scipy.linalg`, imported when first needed: that takes longer than NumPy."""
    return importlib.import_module("scipy.linalg")


# Text for XLA: the routines of LAPACK that its CPU client knows, by name


def lapack(
    writer: Any,
    routine: str,
    operands: Sequence[Any],
    outs: Sequence[tuple[ShapedArray, int]],
    core: Sequence[int],
    **attributes: Any,
) -> list[Any]:
    """A custom call of LAPACK's `routine`; matrices are handed over by columns.

    outs: types, and how many axes each has beside the batch; core: the same of operands.
    Attributes: a letter of LAPACK's (str), bool, or int.
    """
    letter = LETTERS[writer.aval(operands[0]).dtype.name]
    if letter in "cz":
        routine = {"or": "un", "sy": "he"}.get(routine[:2], routine[:2]) + routine[2:]
    avals = [writer.aval(x) for x in operands]
    given = ", ".join(_layout(a.ndim, n) for a, n in zip(avals, core, strict=True))
    return writer.emit_all(
        "stablehlo.custom_call",
        operands,
        [a for a, _ in outs],
        call_target_name=f'"lapack_{letter}{routine}_ffi"',
        api_version=writer.i32(4),
        backend_config=f"{{{', '.join(f'{k} = {_attribute(v)}' for k, v in attributes.items())}}}",
        operand_layouts=f"[{given}]",
        result_layouts=f"[{', '.join(_layout(a.ndim, n) for a, n in outs)}]",
    )


def _attribute(value: Any) -> str:
    if isinstance(value, str):
        return f"{ord(value)} : ui8"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value} : i32"


def _layout(ndim: int, core: int) -> str:
    """Minor axis first: columns of matrices are contiguous."""
    batch = list(range(ndim - core))[::-1]
    own = [ndim - 2, ndim - 1] if core == 2 else [ndim - 1] if core else []
    order = [*own, *batch]
    if not order:
        return "dense<> : tensor<0xindex>"
    return f"dense<[{', '.join(map(str, order))}]> : tensor<{len(order)}xindex>"


def info(batch: Sequence[int]) -> tuple[ShapedArray, int]:
    """The type of LAPACK's word on success, for `lapack`."""
    return ShapedArray(tuple(batch), INT32), 0


def nan_where_failed(writer: Any, found: Any, x: Any, only_negative: bool = False) -> Any:
    """`x`, NaN where LAPACK's word `found` is not 0 (or negative)."""
    aval = writer.aval(x)
    zero = writer.full(writer.aval(found), 0)
    ok = writer.compare("GE" if only_negative else "EQ", found, zero)
    shape = aval.shape
    dims = tuple(range(writer.aval(ok).ndim))
    full = writer.emit("stablehlo.broadcast_in_dim", [ok], ShapedArray(shape, np.bool_),
                       broadcast_dimensions=dims)  # fmt: skip
    return writer.select(full, x, writer.full(aval, np.nan))


# Samples


def avals(shape: Sequence[int], *names: str) -> list[ShapedArray]:
    """One type for each dtype."""
    return [ShapedArray(tuple(shape), name) for name in names or tuple(LETTERS)]


def definite(x: np.ndarray) -> np.ndarray:
    """Hermitian, positive definite, well conditioned, made of any square matrix."""
    n = x.shape[-1]
    return (x @ np.conj(np.swapaxes(x, -1, -2)) / max(n, 1) + np.eye(n)).astype(x.dtype)


def rebuilt(v: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    """v w vᴴ and vᴴ v of [v, w], where `w` is a matrix or a diagonal: signs don't show."""
    back = np.conj(np.swapaxes(v, -1, -2))
    full = v @ w @ back if w.shape == v.shape else (v * w[..., None, :]) @ back
    return [w if w.shape != v.shape else np.abs(w), full, back @ v]


def dominant(x: np.ndarray) -> np.ndarray:
    """With a large, varied diagonal: well conditioned, as a triangle too."""
    m, n = x.shape[-2:]
    return x + np.asarray(np.eye(m, n) * (4 + np.arange(n)), x.dtype)
