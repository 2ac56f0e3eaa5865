"""What a row of the comparison is. The rows themselves are in `rows/`, one small function each."""

import enum
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Limit:
    """What one call can't do without: bytes read and written, and float32 multiply-adds."""

    bytes: float = 0
    multiply_adds: float = 0


class Kind(enum.Enum):
    """What is timed, and in which process."""

    STEADY = "a call, compiled before; one process per side for all rows"
    COLD = "the first call, with tracing and compiling; a new process and no disk cache"
    WARM = "the first call in a new process, whose disk cache an earlier process filled"
    IMPORT = "the import of the library; a new process"


@dataclass
class Row:
    """One workload, defined once for all libraries that have the same API.

    `build` takes the library (the module `covector`, or `jax`) and gives the function to call;
    `inputs` draws its arguments, as NumPy arrays, which each side gets as its own arrays. `rtol`
    bounds the difference of the results, relative to the largest value of each; 0 asks for
    equality.

    Partners that a row may have: `by_hand`, the same function in NumPy or SciPy; `in_torch`, which
    takes the module `torch` and gives the function, used where PyTorch is installed, at once and
    through `torch.compile`; `limit`, what the call must move and compute, so that the machine
    itself is a side.

    Goals, all on Covector's time: `goal`, the highest good ratio to JAX's; `numpy_goal`, to
    NumPy's; `share`, the least good share of the machine's limit.
    """

    name: str
    what: str
    kind: Kind
    goal: float | None
    rtol: float
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    build: Callable[[Any], Callable[..., Any]]
    by_hand: Callable[..., Any] | None = field(default=None)
    in_torch: Callable[[Any], Callable[..., Any]] | None = field(default=None)
    numpy_goal: float | None = None
    limit: Limit | None = None
    share: float | None = None

    def draw(self) -> tuple[Any, ...]:
        """The arguments: the same in every process."""
        return self.inputs(np.random.default_rng(zlib.crc32(self.name.encode())))

    def numpy(self, by_hand: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the NumPy version with this; it takes the same arguments."""
        self.by_hand = by_hand
        return by_hand

    def torch(self, build: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Decorate what builds the PyTorch version with this; that takes tensors."""
        self.in_torch = build
        return build

    def goals(self) -> dict[str, float]:
        """The highest good ratio by the side that it is a ratio to."""
        least = None if self.share is None else 1 / self.share
        named = {"reference": self.goal, "numpy": self.numpy_goal, "limit": least}
        return {side: goal for side, goal in named.items() if goal is not None}


ROWS: dict[str, Row] = {}


def row(
    *,
    goal: float | None = None,
    inputs: Callable[[np.random.Generator], tuple[Any, ...]] = lambda rng: (),
    kind: Kind = Kind.STEADY,
    rtol: float = 1e-5,
    numpy_goal: float | None = None,
    limit: Limit | None = None,
    share: float | None = None,
) -> Callable[[Callable[[Any], Any]], Row]:
    """Register the decorated `build` function under its name; its docstring says what it is."""

    def register(build: Callable[[Any], Any]) -> Row:
        name = build.__name__
        if name in ROWS:
            raise ValueError(f"two rows are called {name}")
        if not build.__doc__:
            raise ValueError(f"row {name} has no docstring to say what it measures")
        if share is not None and limit is None:
            raise ValueError(f"row {name} has a share as goal, but does not say of what limit")
        what = build.__doc__.splitlines()[0]
        ROWS[name] = Row(
            name, what, kind, goal, rtol, inputs, build,
            numpy_goal=numpy_goal, limit=limit, share=share,
        )  # fmt: skip
        return ROWS[name]

    return register


def floats(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal variates as float32, the type that most array programs compute in."""
    # An array even without dimensions, where the generator gives a scalar.
    return np.asarray(rng.standard_normal(shape, dtype=np.float32) * np.float32(scale))
