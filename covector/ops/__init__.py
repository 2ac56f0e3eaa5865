"""Every primitive with all its rules, one family per file.

`ops.pointwise.sin(x)`, `ops.shape.Transpose((1, 0))(x)`: an instance is called to be bound.
"""

from typing import Any

from covector.ir.op import Op
from covector.ops import (
    call,
    families,
    gather,
    pieces,
    pointwise,
    reduce,
    scatter,
    shape,
    slicing,
)

__all__ = [
    "by_name",
    "call",
    "families",
    "gather",
    "pieces",
    "pointwise",
    "reduce",
    "scatter",
    "shape",
    "slicing",
]


def by_name(name: str) -> Any:
    """The instance of the parameterless primitive `name`."""
    return Op.registry[name]()
