"""What `custom_jvp` and `custom_vjp` share: arguments by position, symbolic zeros, checks."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast, final

import numpy as np

from covector import dtypes, tree
from covector._base.context import context
from covector.api.arguments import as_argnums, check_callable, name_of, signature_of
from covector.api.autodiff import zeros_of
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof
from covector.trace.tracer import tangent_aval
from covector.tree_util import keystr


@final
class SymbolicZero:
    """A tangent or cotangent that is known to be zero: what rules with `symbolic_zeros` see.

    It has the shape and dtype of the zeros that it stands for, and no elements.

    >>> from covector.custom_derivatives import SymbolicZero
    >>> SymbolicZero.from_primal_value(1.0).shape
    ()
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of `val`."""
        return SymbolicZero(tangent_aval(typeof(val)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the zeros."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the zeros; float0 where there is no derivative."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether the zeros are weakly typed."""
        return self.aval.weak_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicZero) and self.aval is other.aval

    def __hash__(self) -> int:
        return hash((SymbolicZero, self.aval))

    def __repr__(self) -> str:
        return "SymbolicZero"


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of `val`: an array of zeros (float0 for integers), or a SymbolicZero.

    >>> from covector.custom_derivatives import zero_from_primal
    >>> float(zero_from_primal(3.0))
    0.0
    """
    return zero_of(tangent_aval(typeof(val)), symbolic_zeros)


def zero_of(aval: ShapedArray, symbolic: bool) -> Any:
    """Zeros of a tangent type, as a rule is given them."""
    if symbolic:
        return SymbolicZero(aval)
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return zeros_of(aval)


@final
class Nondiff:
    """Which arguments are passed to the rules as they are, not differentiated."""

    __slots__ = ("numbers",)

    def __init__(self, fun: Callable[..., Any], argnums: Any, argnames: Any, who: str) -> None:
        numbers = as_argnums(argnums, f"{who}: nondiff_argnums")
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        signature = signature_of(fun)
        places = list(signature.parameters) if signature is not None else []
        unknown = [n for n in names if n not in places]
        if unknown:
            raise ValueError(
                f"{who}: nondiff_argnames={argnames!r} names {unknown[0]!r}, which is no argument "
                f"of {name_of(fun)}{signature if signature is not None else ''}"
            )
        self.numbers = (*numbers, *(places.index(n) for n in names))

    def split(self, args: Sequence[Any], fun: Any, who: str) -> tuple[list[int], list[Any]]:
        """(places of the nondiff arguments, in order, the other arguments)."""
        for n in self.numbers:
            if not -len(args) <= n < len(args):
                raise TypeError(
                    f"{who}: nondiff_argnums={self.numbers} names argument {n}, but "
                    f"{name_of(fun)} was called with {len(args)} positional arguments"
                )
        places = sorted({n % len(args) for n in self.numbers})
        return places, [x for k, x in enumerate(args) if k not in places]


class WithRule:
    """A function whose derivative a rule states: what `custom_jvp` and `custom_vjp` share.

    Abstract: a subclass makes its rule unset in `_without_rule`, and says what a call does.
    """

    __class_getitem__: Any = classmethod(cast("Any", types.GenericAlias))

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        who = type(self).__name__
        check_callable(fun, who)
        self.fun = fun
        self._nondiff = Nondiff(fun, nondiff_argnums, nondiff_argnames, who)
        self.nondiff_argnums = self._nondiff.numbers
        self._without_rule()
        look_like(self, fun)  # last: what is set here is not the function's

    def _without_rule(self) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """Anything else is the function's."""
        if name == "fun":
            raise AttributeError(name)
        return getattr(self.fun, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {name_of(self.fun)}>"


def run(fun: Callable[..., Any], *args: Any) -> Any:
    """`fun(*args)`, the user's: its operations belong to its own lines, not to that of the call."""
    outer, context.source = context.source, None
    try:
        return fun(*args)
    finally:
        context.source = outer


def merged(places: Sequence[int], fixed: Sequence[Any], moving: Iterable[Any]) -> list[Any]:
    """All arguments in order: `fixed` at `places`, the others from `moving`."""
    at = dict(zip(places, fixed, strict=True))
    rest = list(moving)
    count = len(at) + len(rest)
    found = iter(rest)
    return [at[k] if k in at else next(found) for k in range(count)]


def by_position(fun: Any, args: Any, kwargs: Any, who: str) -> tuple[Any, ...]:
    """All arguments by position, defaults filled in.  TypeError if that cannot be."""
    signature = signature_of(fun)
    if signature is None:
        if not kwargs:
            return tuple(args)
        raise TypeError(f"{who} function {name_of(fun)} has no signature: pass arguments by place")
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"The input arguments to the {who}-decorated function {name_of(fun)} could not be "
            f"resolved to positional-only arguments. Binding failed with the error:\n{error}"
        ) from None
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"The keyword-only arguments {sorted(bound.kwargs)} of the {who}-decorated function "
            f"{name_of(fun)} cannot be passed by position"
        )
    return bound.args


def pair_of(made: Any, complaint: str) -> tuple[Any, Any]:
    """Refuse what is not a tuple or list of two."""
    if not isinstance(made, (tuple, list)) or len(cast("Sequence[Any]", made)) != 2:
        raise TypeError(f"{complaint}, but got {made}")
    first, second = cast("Sequence[Any]", made)
    return first, second


def check_like_function(
    what: str, fun: Any, given: tuple[Any, Sequence[ShapedArray]], wanted: tuple[Any, Any]
) -> None:
    """Refuse a rule whose result is not of the structure and types of the function's own."""
    (tree_, avals), (fun_tree, fun_avals) = given, wanted
    if tree_ != fun_tree:
        raise TypeError(
            f"{what} must give the result of {name_of(fun)}, but its result has the structure\n"
            f"    {tree_}\nwhile that of {name_of(fun)} has\n    {fun_tree}"
        )
    if [a.strong() for a in avals] != [a.strong() for a in fun_avals]:
        raise TypeError(
            f"{what} must give the result of {name_of(fun)}, but its result has the shapes and "
            f"dtypes\n    {shorts(avals)}\nwhile that of {name_of(fun)} has\n    "
            f"{shorts(fun_avals)}"
        )


def shorts(avals: Iterable[ShapedArray]) -> str:
    """Types in a line."""
    return ", ".join(a.str_short() for a in avals)


def path_in(whole: Any, k: int) -> str:
    """Where the leaf number `k` of a tree is."""
    return keystr(tree.flatten_with_path(whole)[0][k][0])


def look_like(wrapper: Any, fun: Any) -> None:
    """As functools.update_wrapper, where `fun` may be any callable."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        if hasattr(fun, name):
            setattr(wrapper, name, getattr(fun, name))
    own: dict[str, Any] = getattr(fun, "__dict__", {})
    if not inspect.isclass(fun):
        wrapper.__dict__.update({k: v for k, v in own.items() if k not in wrapper.__dict__})
    wrapper.__wrapped__ = fun
