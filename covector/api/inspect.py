"""Looking at a function without running it: `make_jaxpr`, `eval_shape`, `ShapeDtypeStruct`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from covector import dtypes, tree
from covector._base.boundary import api_boundary
from covector.api.arguments import Flat, as_argnums, check_callable, name_of
from covector.ir import values
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.trace.stage import trace_to_jaxpr


class ShapeDtypeStruct:
    """Shape and dtype of an array, without the array.

    >>> import covector as cv
    >>> cv.ShapeDtypeStruct((2, 3), 'float32')
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    def __init__(
        self, shape: Any, dtype: Any, *, sharding: Any = None, weak_type: bool = False
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified")
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.weak_type, self.sharding = weak_type, sharding

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return ShapedArray(self.shape, self.dtype).size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        name = getattr(self.dtype, "name", str(self.dtype))
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={name}{weak})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (
            self.shape,
            self.dtype,
            self.weak_type,
        ) == (other.shape, other.dtype, other.weak_type)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))


def abstract(x: Any) -> ShapedArray:
    """The abstract value of an array, a scalar, or anything that has a shape and a dtype."""
    if isinstance(x, ShapeDtypeStruct):
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype, True), x.weak_type)
    if not values.is_value(x) and hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype, True))
    return values.typeof(x)


def typeof(x: Any) -> ShapedArray:
    """The abstract value of an array, tracer or scalar: shape, dtype, weak type.

    >>> import covector as cv
    >>> cv.typeof(1.0)
    ShapedArray(f32[], weak_type=True)
    """
    return values.typeof(x)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jaxpr of `fun` for the types of its arguments.

    With `return_shape`, the pair (Jaxpr, tree of ShapeDtypeStruct of the result).

    >>> import covector as cv
    >>> print(cv.make_jaxpr(lambda x: cv.lax.sin(x))(1.0))
    { lambda ; a:f32[]*. let
        b:f32[]* = sin a
      in (b,) }
    """
    check_callable(fun, "make_jaxpr")
    del axis_env
    fixed = as_argnums(static_argnums, "make_jaxpr: static_argnums")

    @api_boundary
    @functools.wraps(fun)
    def maker(*args: Any, **kwargs: Any) -> Any:
        program, out_tree = _program(fun, fixed, args, kwargs)
        if not return_shape:
            return program
        return program, tree.unflatten(out_tree, [_struct(a) for a in program.out_avals])

    return maker


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The tree of ShapeDtypeStruct that `fun(*args, **kwargs)` would give, without computing it.

    Arguments may be arrays, scalars or ShapeDtypeStructs.

    >>> import covector as cv
    >>> cv.eval_shape(lambda x: x + 1, cv.ShapeDtypeStruct((3,), 'float32'))
    ShapeDtypeStruct(shape=(3,), dtype=float32)
    """
    check_callable(fun, "eval_shape")
    program, out_tree = _program(fun, (), args, kwargs)
    return tree.unflatten(out_tree, [_struct(a) for a in program.out_avals])


def _program(
    fun: Callable[..., Any], fixed: tuple[int, ...], args: Any, kwargs: Any
) -> tuple[ClosedJaxpr, Any]:
    places: set[int] = {n % len(args) for n in fixed} if args else set()
    dynamic = tuple(x for n, x in enumerate(args) if n not in places)

    def bound(*moving: Any, **options: Any) -> Any:
        given = iter(moving)
        return fun(*[x if n in places else next(given) for n, x in enumerate(args)], **options)

    leaves, in_tree = tree.flatten((dynamic, kwargs))
    flat = Flat(bound, in_tree)
    program = trace_to_jaxpr(flat, [abstract(x) for x in leaves], name_of(fun))
    return program, flat.out_tree


def _struct(aval: ShapedArray) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
