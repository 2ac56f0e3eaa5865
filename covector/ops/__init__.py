"""Every primitive with all its rules, one family per file.

`ops.pointwise.sin(x)`, `ops.shape.Transpose((1, 0))(x)`: an instance is called to be bound.
"""

import sys
from typing import Any

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.ops import (
        arithmetic,
        call,
        callback,
        cast,
        check,
        collective,
        collective_moves,
        compare,
        complex_parts,
        contract,
        control,
        convolution,
        convolution_forms,
        cumulative,
        custom,
        custom_vmap,
        elementary,
        families,
        fused,
        gather,
        linalg,
        linear_call,
        pieces,
        pointwise,
        power,
        random_bits,
        random_floats,
        random_gamma,
        reduce,
        remat,
        scatter,
        select,
        shape,
        slicing,
        sort,
        special,
        window_places,
        windows,
        zeta,
    )

from covector import _wiring as _wiring  # after the door is made: it comes in here
from covector.ir.op import Op

__all__ = [
    "arithmetic",
    "by_name",
    "call",
    "callback",
    "cast",
    "check",
    "collective",
    "collective_moves",
    "compare",
    "complex_parts",
    "contract",
    "control",
    "convolution",
    "convolution_forms",
    "cumulative",
    "custom",
    "custom_vmap",
    "elementary",
    "families",
    "fused",
    "gather",
    "is_loaded",
    "linalg",
    "linear_call",
    "pieces",
    "pointwise",
    "power",
    "random_bits",
    "random_floats",
    "random_gamma",
    "reduce",
    "remat",
    "scatter",
    "select",
    "shape",
    "slicing",
    "sort",
    "special",
    "window_places",
    "windows",
    "zeta",
]


def by_name(name: str) -> Any:
    """The instance of the parameterless primitive `name`."""
    return Op.registry[name]()


def is_loaded(family: str) -> bool:
    """Whether a family of primitives has been loaded: if not, no program holds one of them."""
    return f"{__name__}.{family}" in sys.modules
