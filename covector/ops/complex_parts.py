"""Complex numbers and their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Linear, Sample
from covector.ir.values import typeof
from covector.ops.arithmetic import COMPLEX_OF, neg, real_dtype
from covector.ops.families import Pointwise, like, sum_to_aval, unary


class Complex(Pointwise):
    """x + i y."""

    name = "complex"
    arity = 2
    accepts = "f"
    hlo = "stablehlo.complex"

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """complex64 of float32, complex128 of float64."""
        for k, aval in enumerate(avals):
            if aval.dtype not in (np.float32, np.float64):
                raise TypeError(
                    f"complex: argument {k} must be float32 or float64; got {aval.str_short()}"
                )
        return super().result(*avals)

    def out_dtype(self, dtype: Any) -> Any:
        """The complex dtype of twice the width."""
        return COMPLEX_OF[dtype]

    @staticmethod
    def numpy(x: Any, y: Any) -> Any:
        """Filled by parts, for x + 1j * y would mix infinities."""
        x, y = np.broadcast_arrays(x, y)
        out = np.empty(x.shape, np.complex64 if x.dtype == np.float32 else np.complex128)
        out.real, out.imag = x, y
        return out

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The complex number of the tangents."""
        out = self(*primals)
        if all(t is None for t in tangents):
            return out, None
        shape = typeof(out).shape
        parts = [like(p, 0) if t is None else t for p, t in zip(primals, tangents, strict=True)]
        tangent = self(*parts)
        return out, ops.shape.broadcast_to(tangent, shape)

    def transpose(self, tools: Any, ct: Any, *args: Any) -> list[Any]:
        """(real part, minus the imaginary part): the pairing is Re(ct * z)."""
        x, y = args
        return [
            sum_to_aval(real(ct), x.aval) if isinstance(x, Linear) else None,
            sum_to_aval(neg(imag(ct)), y.aval) if isinstance(y, Linear) else None,
        ]

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Both widths, scalars mixed."""
        for dtype in ("float32", "float64"):
            yield Sample(complex_, (ShapedArray((3, 5), dtype),) * 2)
        scalar, row = ShapedArray((), "float32"), ShapedArray((4,), "float32")
        yield Sample(complex_, (scalar, row))
        yield Sample(complex_, (row, scalar))


complex_ = Complex()


def _real_transpose(self: Any, tools: Any, ct: Any, z: Linear) -> list[Any]:
    return [complex_(ct, like(ct, 0))]


def _imag_transpose(self: Any, tools: Any, ct: Any, z: Linear) -> list[Any]:
    return [complex_(like(ct, 0), neg(ct))]


def _conj_transpose(self: Any, tools: Any, ct: Any, z: Linear) -> list[Any]:
    return [conj(ct)]


real: Any = unary(
    "real",
    "c",
    np.real,
    lambda t, y, z: real(t),
    hlo="real",
    out_dtype=real_dtype,
    transpose=_real_transpose,
)
imag: Any = unary(
    "imag",
    "c",
    np.imag,
    lambda t, y, z: imag(t),
    hlo="imag",
    out_dtype=real_dtype,
    transpose=_imag_transpose,
)
conj: Any = unary(
    "conj", "c", np.conjugate, lambda t, y, z: conj(t), hlo="chlo.conj", transpose=_conj_transpose
)
