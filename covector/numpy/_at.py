"""`x.at[index].set(y)` and its kin: functional updates, each one scatter."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector._base.named_tuple import NamedTuple
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._creation import asarray
from covector.numpy._index_parse import Int, Many, NewAxis, Parsed, Range, parse
from covector.numpy._indexing import getitem, stack_positions, wrapped
from covector.ops.scatter import (
    Scatter,
    ScatterAdd,
    ScatterDimensionNumbers,
    ScatterMax,
    ScatterMin,
    ScatterMul,
    ScatterSub,
)
from covector.runtime import rows
from covector.runtime.eager import eager

INT = np.dtype(np.int32)
_new_tuple: Any = tuple.__new__  # half the time of a named tuple's own


class IndexHelper:
    """`x.at`: give it an index."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexedUpdate:
        return _new_tuple(IndexedUpdate, (self.array, index))

    def __repr__(self) -> str:
        return f"IndexHelper({self.array!r})"


class Hints(NamedTuple):
    """What a caller says of an index."""

    is_sorted: bool = False
    unique: bool = False
    mode: Any = None
    wrap: bool = True


def _update(name: str, kind: Any, what: str, example: str) -> Any:
    """Declare a method that is one scatter of `kind`."""

    def method(
        self: IndexedUpdate,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        del out_sharding
        hints = Hints(indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return _scatter(self.array, self.index, values, kind, name, hints)

    method.__name__ = name
    method.__qualname__ = f"IndexedUpdate.{name}"
    call, result = example.split(" -> ")
    method.__doc__ = f"""{what}

        >>> import covector.numpy as cnp
        >>> {call}.tolist()
        {result}
        """
    # A function of arrays that learns: later calls with the same types, at whatever integer or in
    # the same slices, run natively.
    return eager(method, arrays=2, shortcut=rows.written if kind is Scatter else None)


class IndexedUpdate(NamedTuple):
    """`x.at[index]`: what to do there.

    Every method returns a new array.  `mode`: what happens at positions out of bounds, None or
    'drop' (updates are dropped), 'clip', 'promise_in_bounds', 'fill' (for `get`).
    """

    array: Any
    index: Any

    def __repr__(self) -> str:
        return f"IndexedUpdate({self.array!r}, {self.index!r})"

    set = _update(
        "set", Scatter, "The array with `values` (broadcast) at the index.",
        "cnp.arange(3).at[1].set(7) -> [0, 7, 2]",
    )  # fmt: skip
    add = _update(
        "add", ScatterAdd, "The array with `values` added at the index; repeated ones add up.",
        "cnp.arange(3).at[cnp.array([0, 0])].add(1) -> [2, 1, 2]",
    )  # fmt: skip
    subtract = _update(
        "subtract", ScatterSub, "The array with `values` subtracted at the index.",
        "cnp.arange(3).at[1].subtract(5) -> [0, -4, 2]",
    )  # fmt: skip
    multiply = mul = _update(
        "multiply", ScatterMul, "The array multiplied by `values` at the index.",
        "cnp.arange(3).at[1].multiply(5) -> [0, 5, 2]",
    )  # fmt: skip
    min = _update(
        "min", ScatterMin, "The minimum of the array and `values` at the index.",
        "cnp.arange(3).at[1:].min(1) -> [0, 1, 1]",
    )  # fmt: skip
    max = _update(
        "max", ScatterMax, "The maximum of the array and `values` at the index.",
        "cnp.arange(3).at[:2].max(1) -> [1, 1, 2]",
    )  # fmt: skip

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x[index]`, with a choice of what happens out of bounds.

        >>> import covector.numpy as cnp
        >>> float(cnp.arange(3.0).at[7].get(mode="fill", fill_value=-1.0))
        -1.0
        """
        del out_sharding
        if fill_value is not None:
            fill_value = convert.concrete(fill_value, "the argument `fill_value`").item()
        return getitem(
            self.array,
            self.index,
            mode,
            fill_value,
            indices_are_sorted,
            unique_indices,
            wrap_negative_indices,
        )

    def divide(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The array divided by `values` at the index.

        >>> import covector.numpy as cnp
        >>> cnp.array([1.0, 4.0]).at[1].divide(2).tolist()
        [1.0, 2.0]
        """
        del out_sharding
        hints = Hints(indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return self.array / self._factors(values, "divide", hints)

    def power(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The array raised to `values` at the index.

        >>> import covector.numpy as cnp
        >>> cnp.array([3, 4]).at[1].power(2).tolist()
        [3, 16]
        """
        del out_sharding
        hints = Hints(indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return self.array ** self._factors(values, "power", hints)

    def _factors(self, values: Any, who: str, hints: Hints) -> Any:
        aval = typeof(self.array)
        ones = ops.shape.full(aval.shape, 1, aval.dtype)
        return _scatter(ones, self.index, values, ScatterMul, who, hints)

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`func` of the elements at the index; at a repeated position, once for each time.

        >>> import covector.numpy as cnp
        >>> cnp.arange(3.0).at[1:].apply(lambda v: v * 10).tolist()
        [0.0, 10.0, 20.0]
        """
        hints = Hints(indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return _apply(self.array, self.index, func, hints)


def _scatter(x: Any, index: Any, values: Any, kind: Any, who: str, hints: Hints) -> Any:
    """`x` with `values` combined at `index`, in their common type, then of the type of `x`."""
    x, values = as_array(x), asarray(values)
    aval = typeof(x)
    parsed = parse(index, aval.shape)
    common = _common_dtype(aval.dtype, values, who)
    if kind is Scatter:
        values = convert.cast(values, aval.dtype)
    elif aval.dtype != common or aval.dtype != typeof(values).dtype:
        x, values = convert.cast(x, common, aval.weak_type), convert.cast(values, common)
    out = _combined(x, parsed, values, kind, who, hints)
    return convert.cast(out, aval.dtype, aval.weak_type)


def _combined(x: Any, parsed: Parsed, values: Any, kind: Any, who: str, hints: Hints) -> Any:
    aval = typeof(x)
    grid = _Grid(aval.shape, parsed, hints.wrap)
    values = _broadcast_values(values, grid, who)
    if kind is Scatter and hints.mode is None and grid.is_window():
        return grid.replace(x, values)
    static = not parsed.many
    return ops.scatter.scatter(
        x,
        grid.indices(),
        values,
        grid.numbers(),
        "drop" if hints.mode is None else hints.mode,
        kind=kind,
        unique=hints.unique or static,
        is_sorted=hints.is_sorted or static,
    )


def _apply(x: Any, index: Any, func: Callable[[Any], Any], hints: Hints) -> Any:
    """Where positions may repeat: once for each time that one is named."""
    x = as_array(x)
    aval = typeof(x)
    grid = _Grid(aval.shape, parse(index, aval.shape), hints.wrap)
    if hints.unique or all(n <= 1 for n in grid.common):
        mode = "clip" if hints.mode is None else hints.mode
        taken = getitem(x, index, mode, None, hints.is_sorted, hints.unique, hints.wrap)
        return _scatter(x, index, func(taken), Scatter, "apply", hints)
    blank = ops.shape.full(aval.shape, 0, INT)
    times = _scatter(blank, index, np.int32(1), ScatterAdd, "apply", hints)
    numbers = convert.concrete(
        times, "the number of times that .at[].apply calls the function: use unique_indices=True"
    )
    for k in range(int(numbers.max(initial=0))):
        chosen = ops.pointwise.gt(times, np.int32(k))
        applied = func(x)
        _common_dtype(aval.dtype, applied, "apply")
        x = ops.pointwise.where(chosen, convert.cast(applied, aval.dtype), x)
    return x


class _Grid:
    """How the axes of the updates, of the indices and of the array belong together.

    Axes of the updates, in the order of the result of `x[index]`: those of the broadcast integer
    arrays, one for each strided slice (both are scattered), one for each other slice (a window).
    """

    def __init__(self, shape: tuple[int, ...], parsed: Parsed, wrap: bool) -> None:
        self.parsed, self.extents = parsed, shape
        entries = [e for e in parsed.entries if not isinstance(e, NewAxis)]
        self.arrays = {
            axis: wrapped(e.positions if isinstance(e, Many) else e.position, shape[axis], wrap)
            for axis, e in enumerate(entries)
            if isinstance(e, (Int, Many))
        }
        self.common = convert.broadcast_shapes(
            "indexing", *[typeof(a).shape for a in self.arrays.values()]
        )
        self.ranges = {a: e for a, e in enumerate(entries) if isinstance(e, Range)}
        self.strided = [a for a, e in self.ranges.items() if e.step != 1]
        self.full = [a for a, e in self.ranges.items() if e == Range(0, 1, shape[a])]
        self.layout = self._layout()

    def _layout(self) -> list[Any]:
        """Tokens in order: ('many', k), ('range', axis), ('new', size)."""
        many = [("many", k) for k in range(len(self.common))]
        layout: list[Any] = list(many) if self.parsed.separated else []
        placed, axis = self.parsed.separated, 0
        for e in self.parsed.entries:
            if isinstance(e, NewAxis):
                layout.append(("new", e.size))
                continue
            if isinstance(e, Range):
                layout.append(("range", axis))
            elif not placed:
                layout += many
                placed = True
            axis += 1
        return layout

    def _size(self, token: Any) -> int:
        what, k = token
        if what == "many":
            return self.common[k]
        return self.ranges[k].count if what == "range" else k

    def with_new_axes(self) -> tuple[int, ...]:
        """The shape of `x[index]`."""
        return tuple(self._size(t) for t in self.layout)

    def _own(self) -> list[Any]:
        return [t for t in self.layout if t[0] != "new"]

    def shape(self) -> tuple[int, ...]:
        """The shape of the updates."""
        return tuple(self._size(t) for t in self._own())

    def _scattered(self) -> list[Any]:
        return [t for t in self._own() if t[0] == "many" or t[1] in self.strided]

    def _indexed(self) -> list[int]:
        """Axes of the array that the index vectors name."""
        windows = [a for a in self.ranges if a not in self.strided and a not in self.full]
        return sorted([*self.arrays, *self.strided, *windows])

    def is_window(self) -> bool:
        """Whether the index is a static window: positions in bounds and slices of step 1."""
        return (
            not self.parsed.many
            and not self.strided
            and ("new", 0) not in self.layout
            and all(0 <= int(p) < self.extents[a] for a, p in self.arrays.items())
        )

    def replace(self, x: Any, values: Any) -> Any:
        """`x` with the static window replaced."""
        starts, sizes = [], []
        for axis in range(len(self.extents)):
            r = self.ranges.get(axis)
            starts.append(int(self.arrays[axis]) if r is None else r.start if r.count else 0)
            sizes.append(1 if r is None else r.count)
        window = ops.shape.reshape(values, sizes)
        if tuple(sizes) == self.extents:
            return window
        return ops.slicing.dynamic_update_slice(x, window, [np.int32(s) for s in starts])

    def indices(self) -> Any:
        """Index vectors, along the last axis, for every scattered position."""
        scattered = self._scattered()
        batch = tuple(self._size(t) for t in scattered)
        columns = [self._column(axis, scattered, batch) for axis in self._indexed()]
        return stack_positions(columns) if columns else np.zeros((*batch, 0), np.int32)

    def _column(self, axis: int, scattered: list[Any], batch: tuple[int, ...]) -> Any:
        """The positions along one axis of the array, for every scattered position."""
        if axis in self.arrays:
            array = convert.broadcast_to(self.arrays[axis], self.common)
            places = [d for d, t in enumerate(scattered) if t[0] == "many"]
            return ops.shape.broadcast_in_dim(array, batch, places)
        r = self.ranges[axis]
        start = np.int32(r.start if r.count else 0)
        if axis not in self.strided:
            return ops.shape.broadcast_to(start, batch)
        first = ops.shape.iota(INT, batch, scattered.index(("range", axis)))
        scaled = ops.pointwise.mul(first, np.int32(r.step))
        return ops.pointwise.add(scaled, start)

    def numbers(self) -> ScatterDimensionNumbers:
        """The dimension numbers."""
        scattered = self._scattered()
        windows = [d for d, t in enumerate(self._own()) if t not in scattered]
        inserted = sorted([*self.arrays, *self.strided])
        return ScatterDimensionNumbers(tuple(windows), tuple(inserted), tuple(self._indexed()))


def _common_dtype(dtype: Any, values: Any, who: str) -> Any:
    """The dtype in which elements of `dtype` and `values` meet; warns if it is another one."""
    common = dtype if typeof(values).dtype == dtype else dtypes.result_type(dtype, values)
    if common != dtype:
        warnings.warn(
            f".at[].{who}: scatter inputs have incompatible types: cannot safely cast value "
            f"from dtype={typeof(values).dtype} to dtype={dtype} with "
            "numpy_dtype_promotion='standard'. In future this will be an error.",
            FutureWarning,
            stacklevel=5,
        )
    return common


def _broadcast_values(values: Any, grid: _Grid, who: str) -> Any:
    shape, wanted = typeof(values).shape, grid.with_new_axes()
    try:
        fits = convert.broadcast_shapes(who, shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"Incompatible shapes for broadcasting: .at[].{who} got values of shape {shape} for "
            f"elements of shape {wanted}"
        )
    return ops.shape.reshape(convert.broadcast_to(values, wanted), grid.shape())
