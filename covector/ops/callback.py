"""Calls of Python from inside a program: for a value, for an effect, or to look at values.

A compiled program calls back into Python for these (`compiler.callbacks`, `runtime.callbacks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ir.op import Absent, Op, Sample
from covector.ir.values import typeof

#: What `vmap` may do with a pure callback.
VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
                "legacy_vectorized")  # fmt: skip


class Callback(Op, registered=False):
    """`callback(*arrays)` gives the results, a flat sequence."""

    multiple_results = True
    callback: Callable[..., Sequence[Any]]
    result_avals: tuple[ShapedArray, ...]

    transpose = Absent("not linear")
    decompose = Absent("host")
    stablehlo = Absent("host")

    def result(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The declared types."""
        return self.result_avals

    def numpy(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The call; refuses results of other types than declared."""
        outs = list(self.callback(*arrays))
        if len(outs) != len(self.result_avals):
            raise RuntimeError(
                f"{self.name}: the callback must return {len(self.result_avals)} arrays; it "
                f"returned {len(outs)}"
            )
        found = [np.asarray(x) for x in outs]
        for k, (x, aval) in enumerate(zip(found, self.result_avals, strict=True)):
            if x.shape != aval.shape or x.dtype != aval.dtype:
                raise RuntimeError(
                    f"{self.name}: result {k} of the callback must be {aval.str_short()}, as "
                    f"declared; it returned an array of dtype {x.dtype} and shape {x.shape}"
                )
        return found

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """None: nothing is known of the function."""
        raise ValueError(
            f"{self.name} has no derivative: nothing is known of the Python function. Give the "
            "function that calls it a rule, with custom_jvp or custom_vjp"
        )

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call for each example."""
        return ops.control.over_batch(self, size, args, dims)


class PureCallback(Callback):
    """A Python function without side effects, called as often as the program likes."""

    name = "pure_callback"
    vmap_method: str | None = None

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """As `vmap_method` says: a call for each example, or one with a leading batch axis."""
        method = self.vmap_method
        if method is None:
            raise NotImplementedError(
                "pure_callback: to be vmapped it needs vmap_method, one of "
                f"{', '.join(VMAP_METHODS)}"
            )
        if method.startswith("sequential"):
            return ops.control.over_batch(self, size, args, dims)
        moved = [_with_axis(method, x, d, size) for x, d in zip(args, dims, strict=True)]
        avals = tuple(ShapedArray((size, *a.shape), a.dtype) for a in self.result_avals)
        outs = PureCallback(self.callback, avals, method)(*moved)
        return outs, [0] * len(outs)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """x + 1, in NumPy."""
        aval = ShapedArray((3,), "float32")
        op = PureCallback(_plus_one, (aval,), "expand_dims")
        yield Sample(op, (aval,), smooth=False)


def _plus_one(x: np.ndarray) -> list[np.ndarray]:
    return [x + np.float32(1)]


def _with_axis(method: str, x: Any, dim: int | None, size: int) -> Any:
    if dim is not None:
        return ops.shape.move_axis(x, dim, 0)
    if method == "legacy_vectorized":
        return x
    one = ops.shape.expand_dims(x, (0,))
    if method == "expand_dims":
        return one
    shape = typeof(one).shape
    return ops.shape.broadcast_in_dim(one, (size, *shape[1:]), tuple(range(len(shape))))


class IoCallback(Callback):
    """A Python function with side effects, called once for each time that it is reached."""

    name = "io_callback"
    ordered: bool

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """It is neither removed nor moved."""
        return frozenset({"io"})

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """A call for each example, if their order does not matter."""
        if self.ordered:
            raise ValueError("io_callback: an ordered one has no order under vmap")
        return ops.control.over_batch(self, size, args, dims)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """x + 1, in NumPy."""
        aval = ShapedArray((3,), "float32")
        yield Sample(IoCallback(_plus_one, (aval,), False), (aval,), smooth=False)


class DebugCallback(Callback):
    """A Python function that looks at values; it has no results, and no derivative matters."""

    name = "debug_callback"

    @property
    def effects(self) -> frozenset[str]:  # type: ignore[override]
        """It is neither removed nor moved."""
        return frozenset({"debug"})

    def jvp(self, tools: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The call."""
        return self(*primals), []

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Looks at x."""
        yield Sample(DebugCallback(_nothing, ()), (ShapedArray((3,), "float32"),), smooth=False)


def _nothing(x: np.ndarray) -> list[np.ndarray]:
    return []
