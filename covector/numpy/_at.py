"""`x.at[index].set(y)` and its kin: functional updates, each one scatter."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from covector import dtypes, ops
from covector.ir.values import typeof
from covector.numpy import _convert
from covector.numpy._index_parse import Int, Many, NewAxis, Parsed, Range, parse
from covector.numpy._indexing import getitem, mode_of, stack_positions, wrapped
from covector.ops.index import GatherScatterMode, ScatterDimensionNumbers


class IndexHelper:
    """`x.at`: give it an index."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexedUpdate:
        return IndexedUpdate(self.array, index)

    def __repr__(self) -> str:
        return f"IndexHelper({self.array!r})"


class IndexedUpdate:
    """`x.at[index]`: what to do there.

    Every method returns a new array.  `mode`: what happens at positions out of bounds, None or
    'drop' (updates are dropped), 'clip', 'promise_in_bounds', 'fill' (for `get`).
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"IndexedUpdate({self.array!r}, {self.index!r})"

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

        >>> import covector.numpy as jnp
        >>> float(jnp.arange(3.0).at[7].get(mode="fill", fill_value=-1.0))
        -1.0
        """
        del out_sharding
        return getitem(
            self.array,
            self.index,
            mode,
            fill_value,
            indices_are_sorted,
            unique_indices,
            wrap_negative_indices,
        )

    def set(self, values: Any, **options: Any) -> Any:
        """`x` with the elements at the index replaced by `values` (broadcast to its shape).

        >>> import covector.numpy as jnp
        >>> jnp.arange(3).at[1].set(7).tolist()
        [0, 7, 2]
        """
        return self._scatter(ops.index.scatter, values, "set", options)

    def add(self, values: Any, **options: Any) -> Any:
        """`x` with `values` added at the index; repeated positions add up.

        >>> import covector.numpy as jnp
        >>> jnp.zeros(3).at[jnp.array([0, 0])].add(1.0).tolist()
        [2.0, 0.0, 0.0]
        """
        return self._scatter(ops.index.scatter_add, values, "add", options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """`x` with `values` subtracted at the index."""
        (values,) = _convert.operands("subtract", values)
        return self._scatter(ops.index.scatter_add, ops.pointwise.neg(values), "subtract", options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """`x` multiplied by `values` at the index."""
        return self._scatter(ops.index.scatter_mul, values, "multiply", options)

    mul = multiply

    def divide(self, values: Any, **options: Any) -> Any:
        """`x` divided by `values` at the index."""
        ones = _full_like(self.array, 1)
        divisor = IndexedUpdate(ones, self.index).multiply(values, **options)
        return self.array / divisor

    def power(self, values: Any, **options: Any) -> Any:
        """`x` raised to `values` at the index."""
        ones = _full_like(self.array, 1)
        exponent = IndexedUpdate(ones, self.index).multiply(values, **options)
        return self.array**exponent

    def min(self, values: Any, **options: Any) -> Any:
        """The minimum of `x` and `values` at the index."""
        return self._scatter(ops.index.scatter_min, values, "min", options)

    def max(self, values: Any, **options: Any) -> Any:
        """The maximum of `x` and `values` at the index."""
        return self._scatter(ops.index.scatter_max, values, "max", options)

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Any:
        """`func` of the elements at the index; at a repeated position, once for each time.

        >>> import covector.numpy as jnp
        >>> jnp.arange(3.0).at[1:].apply(lambda v: v * 10).tolist()
        [0.0, 10.0, 20.0]
        """
        reading = {k: v for k, v in options.items() if k != "mode"}
        taken = self.get(**reading, mode=options.get("mode") or "clip")
        return self.set(func(taken), **options)

    def _scatter(self, scatter: Any, values: Any, who: str, options: dict[str, Any]) -> Any:
        x = self.array
        (values,) = _convert.operands(f".at[].{who}", values)
        plan = _plan(typeof(x).shape, self.index, **_checked(options, who))
        values = _broadcast_values(_cast_values(x, values, who), plan, who)
        return scatter(
            x,
            plan.indices,
            values,
            plan.numbers,
            indices_are_sorted=plan.is_sorted,
            unique_indices=plan.unique,
            mode=plan.mode,
        )


class Plan(NamedTuple):
    """A scatter: `shape` that values have with the new axes, `updates` without them."""

    shape: tuple[int, ...]
    updates: tuple[int, ...]
    indices: Any
    numbers: ScatterDimensionNumbers
    is_sorted: bool
    unique: bool
    mode: GatherScatterMode


_OPTIONS = {
    "indices_are_sorted": False,
    "unique_indices": False,
    "mode": None,
    "out_sharding": None,
    "wrap_negative_indices": True,
}


def _checked(options: dict[str, Any], who: str) -> dict[str, Any]:
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(
                f".at[].{who} got an unexpected keyword argument {name!r}; it takes "
                f"{', '.join(_OPTIONS)}"
            )
    return {**_OPTIONS, **options}


def _plan(
    shape: tuple[int, ...],
    index: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
    out_sharding: Any,
    wrap_negative_indices: bool,
) -> Plan:
    del out_sharding
    parsed = parse(index, shape)
    how = GatherScatterMode.FILL_OR_DROP if mode is None else mode_of(mode, "scatter")
    grid = _Grid(shape, parsed, wrap_negative_indices, mode == "wrap")
    static = not parsed.many
    return Plan(
        grid.with_new_axes(),
        grid.shape(),
        grid.indices(),
        grid.numbers(),
        indices_are_sorted or static,
        unique_indices or static,
        how,
    )


class _Grid:
    """How the axes of the updates, of the indices and of the array belong together.

    Axes of the updates, in the order of the result of `x[index]`: those of the broadcast integer
    arrays, one for each strided slice (both are scattered), one for each other slice (a window).
    """

    def __init__(self, shape: tuple[int, ...], parsed: Parsed, wrap: bool, modulo: bool) -> None:
        self.parsed = parsed
        entries = [e for e in parsed.entries if not isinstance(e, NewAxis)]
        arrays = {
            axis: wrapped(
                e.positions if isinstance(e, Many) else e.position, shape[axis], wrap, modulo
            )
            for axis, e in enumerate(entries)
            if isinstance(e, (Int, Many))
        }
        self.common = _convert.broadcast_shapes(
            "indexing", *[typeof(a).shape for a in arrays.values()]
        )
        self.arrays = arrays
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

    def indices(self) -> Any:
        """Index vectors, along the last axis, for every scattered position."""
        scattered = self._scattered()
        batch = tuple(self._size(t) for t in scattered)
        places = [d for d, t in enumerate(scattered) if t[0] == "many"]
        columns = []
        for axis in self._indexed():
            if axis in self.arrays:
                array = _convert.broadcast_to(self.arrays[axis], self.common)
                columns.append(ops.shape.broadcast_in_dim(array, batch, places))
            else:
                r = self.ranges[axis]
                place = [d for d, t in enumerate(scattered) if t == ("range", axis)]
                count = r.count if place else 1
                positions = (r.start + r.step * np.arange(count)).astype(np.int32)
                positions = positions if place else positions[0] if r.count else np.int32(0)
                columns.append(ops.shape.broadcast_in_dim(positions, batch, place))
        if not columns:
            return np.zeros((*batch, 0), np.int32)
        return stack_positions(columns)

    def numbers(self) -> ScatterDimensionNumbers:
        """The dimension numbers."""
        windows = [d for d, t in enumerate(self._own()) if t not in self._scattered()]
        inserted = sorted([*self.arrays, *self.strided])
        return ScatterDimensionNumbers(tuple(windows), tuple(inserted), tuple(self._indexed()))


def _cast_values(x: Any, values: Any, who: str) -> Any:
    dtype = typeof(x).dtype
    if typeof(values).dtype != dtype:
        if dtypes.result_type(x, values) != dtype:
            warnings.warn(
                f".at[].{who}: scatter inputs have incompatible types: cannot safely cast value "
                f"from dtype={typeof(values).dtype} to dtype={dtype} with "
                f"jax_numpy_dtype_promotion='standard'. In future this will be an error.",
                FutureWarning,
                stacklevel=4,
            )
    return _convert.cast(values, dtype)


def _broadcast_values(values: Any, plan: Plan, who: str) -> Any:
    shape = typeof(values).shape
    extra = len(shape) - len(plan.shape)
    if extra > 0 and all(n == 1 for n in shape[:extra]):
        values, shape = ops.shape.reshape(values, shape[extra:]), shape[extra:]
    try:
        fits = _convert.broadcast_shapes(who, shape, plan.shape) == plan.shape
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            f"Incompatible shapes for broadcasting: .at[].{who} got values of shape {shape} for "
            f"elements of shape {plan.shape}"
        )
    return ops.shape.reshape(_convert.broadcast_to(values, plan.shape), plan.updates)


def _full_like(x: Any, value: Any) -> Any:
    aval = typeof(x)
    return ops.shape.broadcast_in_dim(aval.dtype.type(value), aval.shape, ())


def at(x: Any) -> IndexHelper:
    """The property `x.at`."""
    return IndexHelper(x)



