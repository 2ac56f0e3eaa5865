"""Every primitive with all its rules, one family per file.

`ops.pointwise.sin(x)`, `ops.shape.Transpose((1, 0))(x)`: an instance is called to be bound.
"""

from typing import Any

from covector.ir.op import Op
from covector.ops import (
    arithmetic,
    call,
    cast,
    compare,
    contract,
    cumulative,
    elementary,
    families,
    gather,
    pieces,
    pointwise,
    random_bits,
    reduce,
    scatter,
    select,
    shape,
    slicing,
    sort,
    special,
    zeta,
)

__all__ = [
    "by_name",
    "arithmetic",
    "call",
    "cast",
    "compare",
    "contract",
    "cumulative",
    "elementary",
    "families",
    "gather",
    "pieces",
    "pointwise",
    "random_bits",
    "reduce",
    "scatter",
    "select",
    "shape",
    "slicing",
    "sort",
    "special",
    "zeta",
]


def by_name(name: str) -> Any:
    """The instance of the parameterless primitive `name`."""
    return Op.registry[name]()
