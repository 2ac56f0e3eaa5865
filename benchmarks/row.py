"""What a row of the comparison is. The rows themselves are in `rows/`, one small function each."""

import enum
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


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
    `inputs` draws its arguments, as NumPy arrays, which each side gets as its own arrays; `by_hand`
    is the same function in NumPy, where that makes sense. `goal` is the highest good ratio
    of the times, Covector's over JAX's. `rtol` bounds the difference of the results, relative to
    the largest value of each; 0 asks for equality.
    """

    name: str
    what: str
    kind: Kind
    goal: float | None
    rtol: float
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    build: Callable[[Any], Callable[..., Any]]
    by_hand: Callable[..., Any] | None = field(default=None)

    def draw(self) -> tuple[Any, ...]:
        """The arguments: the same in every process."""
        return self.inputs(np.random.default_rng(zlib.crc32(self.name.encode())))

    def numpy(self, by_hand: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the NumPy version with this; it takes the same arguments."""
        self.by_hand = by_hand
        return by_hand


ROWS: dict[str, Row] = {}


def row(
    *,
    goal: float | None = None,
    inputs: Callable[[np.random.Generator], tuple[Any, ...]] = lambda rng: (),
    kind: Kind = Kind.STEADY,
    rtol: float = 1e-5,
) -> Callable[[Callable[[Any], Any]], Row]:
    """Register the decorated `build` function under its name; its docstring says what it is."""

    def register(build: Callable[[Any], Any]) -> Row:
        name = build.__name__
        if name in ROWS:
            raise ValueError(f"two rows are called {name}")
        if not build.__doc__:
            raise ValueError(f"row {name} has no docstring to say what it measures")
        ROWS[name] = Row(name, build.__doc__.splitlines()[0], kind, goal, rtol, inputs, build)
        return ROWS[name]

    return register


def floats(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal variates as float32, the type that most array programs compute in."""
    # An array even without dimensions, where the generator gives a scalar.
    return np.asarray(rng.standard_normal(shape, dtype=np.float32) * np.float32(scale))
