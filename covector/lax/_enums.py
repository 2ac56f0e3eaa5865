"""Named choices that functions of `covector.lax` take."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from covector._base.containers import is_listed
from covector._base.named_tuple import NamedTuple
from covector.ir.text import register_value_class

#: ((lhs contracting axes, rhs contracting axes), (lhs batch axes, rhs batch axes)).
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


@register_value_class
class Precision(enum.Enum):
    """How exactly a backend must multiply: it matters on accelerators with fast inexact units.

    May be given by name: 'default' or 'fastest' or 'bfloat16'; 'high' or 'bfloat16_3x' or
    'tensorfloat32'; 'highest' or 'float32'.  On the CPU all products are exact to rounding.

    >>> from covector import lax
    >>> lax.Precision("float32")
    Precision.HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _PRECISIONS.get(value) if isinstance(value, (str, type(None))) else None

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISIONS = {
    None: Precision.DEFAULT,
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}

PrecisionLike = None | str | Precision | tuple[str, str] | tuple[Precision, Precision]


def canonical_precision(given: Any) -> Any:
    """None, or a pair of Precisions, one for each operand; ValueError for anything else."""
    if given is None:
        return None
    pair = given if is_listed(given) else (given, given)
    try:
        left, right = (Precision(p) for p in pair)
    except ValueError:
        raise ValueError(
            f"precision must be None, a lax.Precision, one of {[*filter(None, _PRECISIONS)]}, or a "
            f"pair of these; got {given!r}"
        ) from None
    return left, right


@register_value_class
class RoundingMethod(enum.IntEnum):
    """Where `round` takes a number half way between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


@register_value_class
class RandomAlgorithm(enum.IntEnum):
    """The generator of `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


class AccuracyMode(enum.Enum):
    """How exact an elementary function must be; here all are within 2 units in the last place."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """How exact an elementary function must be: absolute, relative, in units in the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0
