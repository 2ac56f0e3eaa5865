"""Functions of functions: `vectorize`, `apply_along_axis`, `apply_over_axes`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from covector import ops
from covector.api.arrays import as_array
from covector.api.vectorize import vmap
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy.convert import array_operand, canonical_axis, operands

_NAMES = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = re.compile(rf"^{_NAMES}(?:,{_NAMES})*->{_NAMES}(?:,{_NAMES})*$")

Dims = list[tuple[str, ...]]


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any,
                     **kwargs: Any) -> Any:  # fmt: skip
    """`func1d` of every 1-d slice along `axis`; the axes of its result take the place of it.

    >>> import covector.numpy as cnp
    >>> cnp.apply_along_axis(cnp.sum, 0, cnp.ones((2, 3))).tolist()
    [2.0, 2.0, 2.0]
    """
    x = array_operand("apply_along_axis", arr)
    axis = canonical_axis(axis, x.ndim, "apply_along_axis")
    function = lambda v: func1d(v, *args, **kwargs)  # noqa: E731
    for _ in range(x.ndim - axis - 1):
        function = vmap(function, in_axes=-1, out_axes=-1)  # the last axis outermost, and last
    for _ in range(axis):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(x)


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Any:
    """`func(a, axis)` for one axis after another, each of which stays.

    >>> import covector.numpy as cnp
    >>> cnp.apply_over_axes(cnp.sum, cnp.ones((2, 3)), [0, 1]).tolist()
    [[6.0]]
    """
    x = array_operand("apply_over_axes", a)
    for axis in convert.canonical_axes(
        tuple(axes) if not isinstance(axes, int) else axes, x.ndim, "apply_over_axes"
    ):
        out = func(x, axis)
        if out.ndim == x.ndim:
            x = out
        elif out.ndim == x.ndim - 1:
            x = ops.shape.expand_dims(out, (axis,))
        else:
            raise ValueError("function is not returning an array of the correct shape")
    return x


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function of arrays that maps `pyfunc` over broadcast leading axes, by `vmap`.

    signature: the core axes that `pyfunc` takes and gives, as `(n,m),(m)->(n)`; without it they
    are scalars.  excluded: positions or names of arguments that are passed on as they are.
    Raises ValueError for shapes that do not fit the signature.

    >>> import covector.numpy as cnp
    >>> dots = cnp.vectorize(cnp.dot, signature="(n),(n)->()")
    >>> dots(cnp.ones((2, 3)), cnp.ones(3)).tolist()
    [3.0, 3.0]
    """
    if any(not isinstance(k, (int, str)) for k in excluded):
        raise TypeError(f"vectorize: excluded must be integers or strings; got {set(excluded)!r}")
    if any(isinstance(k, int) and k < 0 for k in excluded):
        raise ValueError(f"vectorize: excluded contains negative numbers: {set(excluded)!r}")

    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        error = f"on vectorized function with {excluded=} and {signature=}"
        function, rest = _without_excluded(pyfunc, excluded, args, kwargs)
        arrays = [as_array(x) for x in operands("vectorize", *rest)]
        if signature is None:
            inputs, outputs = [()] * len(arrays), None
        else:
            inputs, outputs = _parse(signature)
        if len(inputs) != len(arrays):
            raise TypeError(f"wrong number of positional arguments: expected {len(inputs)}, got "
                            f"{len(arrays)} {error}")  # fmt: skip
        sizes = _core_sizes(arrays, inputs, error)
        checked = _checking(function, sizes, outputs, error)
        return _mapped(checked, arrays, inputs)

    return vectorized


def _without_excluded(
    function: Callable[..., Any], excluded: Collection[Any], args: Any, kwargs: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """(the function of the other positional and keyword arguments, those arguments)."""
    fixed = {k: x for k, x in enumerate(args) if k in excluded}
    fixed_names = {k: x for k, x in kwargs.items() if k in excluded}
    names = [k for k in kwargs if k not in excluded]
    count = len(args)
    rest = [x for k, x in enumerate(args) if k not in excluded]

    def call(*values: Any) -> Any:
        given = iter(values)
        positional = [fixed[k] if k in fixed else next(given) for k in range(count)]
        return function(*positional, **{k: next(given) for k in names}, **fixed_names)

    return call, [*rest, *(kwargs[k] for k in names)]


def _parse(signature: str) -> tuple[Dims, Dims]:
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    sides = [
        [tuple(filter(None, names[1:-1].split(","))) for names in re.findall(_NAMES, side)]
        for side in text.split("->")
    ]
    return sides[0], sides[1]


def _core_sizes(arrays: Sequence[Any], inputs: Dims, error: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for x, names in zip(arrays, inputs, strict=True):
        if x.ndim < len(names):
            raise ValueError(f"input with shape {x.shape} does not have enough dimensions for all "
                             f"core dimensions {names} {error}")  # fmt: skip
        _match(x.shape[x.ndim - len(names) :], names, sizes, error)
    return sizes


def _match(shape: Sequence[int], names: tuple[str, ...], sizes: dict[str, int], error: str) -> None:
    for n, name in zip(shape, names, strict=True):
        known = sizes.setdefault(name, int(name) if name.isdigit() else n)
        if known != n:
            raise ValueError(f"inconsistent size for core dimension {name!r}: {n} vs {known} "
                             f"{error}")  # fmt: skip


def _checking(
    function: Callable[..., Any], sizes: dict[str, int], outputs: Dims | None, error: str
) -> Callable[..., Any]:
    """The function, whose results are checked against the signature."""

    def checked(*args: Any) -> Any:
        out = function(*args)
        parts = out if isinstance(out, tuple) else (out,)
        if outputs is None:
            shapes = [typeof(x).shape for x in operands("vectorize", *parts)]
            if any(shapes):
                raise ValueError(f"output must be scalar without a signature, but has shape "
                                 f"{shapes} {error}")  # fmt: skip
            return out
        if (isinstance(out, tuple) and len(outputs) == 1) or len(parts) != len(outputs):
            raise TypeError(f"wrong number of output arguments: expected {len(outputs)}, got "
                            f"{len(parts)} {error}")  # fmt: skip
        known = dict(sizes)
        for x, names in zip(parts, outputs, strict=True):
            shape = typeof(operands("vectorize", x)[0]).shape
            if len(shape) != len(names):
                raise ValueError(f"output shape {shape} does not match core dimensions {names} "
                                 f"{error}")  # fmt: skip
            _match(shape, names, known, error)
        return out

    return checked


def _mapped(function: Callable[..., Any], arrays: Sequence[Any], inputs: Dims) -> Any:
    """The function mapped over the broadcast leading axes; axes of size 1 are not mapped."""
    loops = [x.shape[: x.ndim - len(names)] for x, names in zip(arrays, inputs, strict=True)]
    shape = convert.broadcast_shapes("vectorize", *loops)
    rank = len(shape)
    flags, squeezed = [], []
    for x, loop in zip(arrays, loops, strict=True):
        first = rank - len(loop)
        mapped = [d >= first and loop[d - first] == n for d, n in enumerate(shape)]
        away = [d for d in range(len(loop)) if not mapped[first + d]]
        squeezed.append(ops.shape.squeeze(x, away))
        flags.append(mapped)
    for d in range(rank - 1, -1, -1):
        axes = tuple(0 if mapped[d] else None for mapped in flags)
        function = vmap(function, in_axes=axes, axis_size=shape[d])
    return function(*squeezed)
