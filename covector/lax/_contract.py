"""Products of matrices and their generalisation."""

from __future__ import annotations

from typing import Any

from covector import ops
from covector.ir.values import typeof
from covector.lax._arguments import user_dtype
from covector.lax._enums import DotDimensionNumbers, PrecisionLike, canonical_precision


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Sums of products along the contracting axes, for each index of the batch axes.

    `dimension_numbers`: ((lhs, rhs contracting axes), (lhs, rhs batch axes)); paired axes have
    equal sizes (else TypeError).  The result has the batch axes, the other axes of `lhs`, the
    other axes of `rhs`; its dtype is `preferred_element_type`, or the operands'.

    >>> from covector import lax, numpy as jnp
    >>> x = jnp.arange(4.0).reshape(2, 2)
    >>> print(lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))))
    [ 1. 13.]
    """
    wanted = preferred_element_type
    if wanted is not None:
        wanted = user_dtype(wanted, "dot_general")
    return ops.contract.dot_general(
        lhs, rhs, dimension_numbers, canonical_precision(precision), wanted
    )


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of two vectors, of a matrix and a vector, or of two matrices.

    With `dimension_numbers` it is `dot_general`.  ValueError for other ranks or sizes.

    >>> from covector import lax, numpy as jnp
    >>> print(lax.dot(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])))
    11.0
    """
    if dimension_numbers is None:
        left, right = typeof(lhs).shape, typeof(rhs).shape
        ranks = (len(left), len(right))
        if not {*ranks} <= {1, 2} or left[-1] != right[0]:
            raise ValueError(
                f"dot: dimension_numbers must be specified when not performing simple un-batched "
                f"matrix-matrix, matrix-vector, or vector-vector products; got lhs_shape={left} "
                f"rhs_shape={right}"
            )
        dimension_numbers = (((ranks[0] - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: PrecisionLike = None) -> Any:
    """Matrix products over the last two axes, for each index of the others, which agree.

    >>> from covector import lax, numpy as jnp
    >>> x = jnp.ones((3, 2, 2))
    >>> lax.batch_matmul(x, x).shape
    (3, 2, 2)
    """
    ndim = typeof(lhs).ndim
    if ndim != typeof(rhs).ndim or ndim < 2:
        raise ValueError(
            f"batch_matmul: arguments must have the same number of axes, 2 or more; got "
            f"{typeof(lhs).str_short()} and {typeof(rhs).str_short()}"
        )
    batch = tuple(range(ndim - 2))
    return dot_general(lhs, rhs, (((ndim - 1,), (ndim - 2,)), (batch, batch)), precision)
