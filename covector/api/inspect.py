"""Looking at functions and at what is there: `make_jaxpr`, `eval_shape`, names, live arrays."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from covector import dtypes, transforms, tree
from covector._base.boundary import api_boundary
from covector._base.config import config
from covector._base.context import Context, context, current_trace
from covector.api.arguments import Flat, argument_labels, as_argnums, check_callable, name_of
from covector.ir import values
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.runtime.array import Array
from covector.trace.stage import trace_to_jaxpr
from covector.trace.tracer import AxisScope


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


class named_scope:
    """`with named_scope("attention"):` gives operations traced inside a name; also a decorator.

    Names nest; they are in `Equation.scope`.  Raises TypeError for what is no string.

    >>> import covector as cv
    >>> def f(x):
    ...     with cv.named_scope("outer"), cv.named_scope("inner"):
    ...         return x + 1
    >>> cv.make_jaxpr(f)(1.0).eqns[0].scope
    ('outer', 'inner')
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"named_scope: the name must be a string; got {name!r}")
        self.name = name

    def __enter__(self) -> None:
        context.scope = (*context.scope, self.name)

    def __exit__(self, *exc: object) -> None:
        context.scope = context.scope[:-1]

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fun(*args, **kwargs)

        return scoped


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun`, its operations traced under a name: by default its own.

    >>> import covector as cv
    >>> f = cv.named_call(lambda x: x + 1, name="increment")
    >>> cv.make_jaxpr(f)(1.0).eqns[0].scope
    ('increment',)
    """
    check_callable(fun, "named_call")
    return named_scope(name_of(fun) if name is None else name)(fun)


def ensure_compile_time_eval() -> Any:
    """A context in which operations on concrete values run at once, though a function is traced.

    >>> import covector as cv
    >>> @cv.jit
    ... def f(x):
    ...     with cv.ensure_compile_time_eval():
    ...         n = int(cv.numpy.sum(cv.numpy.arange(4)))  # a Python number: it may be a shape
    ...     return x + cv.numpy.ones(n)
    >>> f(1.0).shape
    (6,)
    """
    return current_trace(Context.trace)


def live_arrays(platform: str | None = None) -> list[Any]:
    """The arrays that variables, containers and objects of the process hold; for debugging.

    A search of all objects, so slow.  `platform`: only those there.

    >>> import covector as cv
    >>> x = cv.numpy.ones(3)
    >>> any(a is x for a in cv.live_arrays())
    True
    """
    found: dict[int, Array] = {}

    def add(held: Any) -> None:
        if type(held) is Array and not held.is_deleted():
            found[id(held)] = held

    for holder in gc.get_objects():
        if type(holder) is Array:
            add(holder)
        else:
            for held in gc.get_referents(holder):
                add(held)
    for frame in sys._current_frames().values():  # pyright: ignore[reportPrivateUsage]
        walked: types.FrameType | None = frame
        while walked is not None:
            names = walked.f_locals
            for held in tuple(names.values()):
                add(held)
            if type(names) is dict and walked.f_code.co_flags & inspect.CO_OPTIMIZED:
                names.clear()  # up to Python 3.12 a copy, which would keep the arrays alive
            walked = walked.f_back
    return [x for x in found.values() if platform is None or x.platform() == platform]


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

    `axis_env`: pairs (name, size) of axes that its collectives may be over.  With `return_shape`,
    the pair (Jaxpr, tree of ShapeDtypeStruct of the result).

    >>> import covector as cv
    >>> print(cv.make_jaxpr(lambda x: cv.lax.sin(x))(1.0))
    { lambda ; a:f32[]*. let
        b:f32[]* = sin a
      in (b,) }
    """
    check_callable(fun, "make_jaxpr")
    fixed = as_argnums(static_argnums, "make_jaxpr: static_argnums")

    @api_boundary
    @functools.wraps(fun)
    def maker(*args: Any, **kwargs: Any) -> Any:
        with current_trace(AxisScope(context.trace, axis_env or ())):
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
    name = name_of(fun)
    labels = argument_labels(fun, (dynamic, kwargs), tuple(places))
    sources = [f"argument {label} of {name}" for label in labels]
    program = trace_to_jaxpr(flat, [abstract(x) for x in leaves], name, sources)
    if config.debug_key_reuse:
        transforms.key_reuse.check_program(program, sources)
    return program, flat.out_tree


def _struct(aval: ShapedArray) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
