"""`custom_vjp`, `custom_gradient`: functions whose reverse derivative the user states."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast, final

import numpy as np

from covector import dtypes, ops, tree
from covector._base.boundary import api_boundary
from covector._base.errors import UnexpectedTracerError
from covector.api.arguments import avals_of, check_callable, check_values, name_of
from covector.api.arrays import as_array
from covector.api.custom_rules import (
    SymbolicZero,
    WithRule,
    by_position,
    check_like_function,
    merged,
    pair_of,
    path_in,
    run,
    shorts,
    zero_of,
)
from covector.api.linear import closure_convert
from covector.ir.values import typeof
from covector.ops.custom import CustomVjpCall, Forward
from covector.trace.tracer import Tracer, tangent_aval
from covector.transforms.custom import CustomCall
from covector.tree_util import Partial


@final
class CustomVJPPrimal:
    """What a forward rule with `symbolic_zeros` is given for each array of its arguments.

    value: the array; perturbed: whether it is differentiated with respect to.  To pytrees it is a
    leaf.

    >>> from covector.custom_derivatives import CustomVJPPrimal
    >>> CustomVJPPrimal(1.0, True)
    CustomVJPPrimal(value=1.0, perturbed=True)
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomVJPPrimal) and (
            (self.value, self.perturbed) == (other.value, other.perturbed)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed!r})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The tree with the value of each CustomVJPPrimal in its place.

    >>> from covector.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
    >>> custom_vjp_primal_tree_values([CustomVJPPrimal(1.0, True), 2.0])
    [1.0, 2.0]
    """

    def value(x: Any) -> Any:
        return x.value if isinstance(x, CustomVJPPrimal) else x

    return _map(value, tree)


_map = tree.map


@final
class custom_vjp(WithRule):
    """A function with its own rule for reverse mode.

    Args:
      fun: a function of arrays or pytrees of them.
      nondiff_argnums, nondiff_argnames: arguments that are not differentiated, such as functions;
        the forward rule gets them in their places, the backward rule before the others.  Arrays
        that are traced must not be passed so (UnexpectedTracerError).

    Set the rules by `defvjp`; without them a call raises AttributeError.  Forward mode (jvp,
    jacfwd) works too where the backward rule is linear in the cotangents, as a derivative is: the
    tangents are found by its transpose.

    >>> import covector as cv
    >>> @cv.custom_vjp
    ... def f(x):
    ...     return cv.numpy.sin(x)
    >>> f.defvjp(lambda x: (f(x), cv.numpy.cos(x)), lambda cos, ct: (2 * cos * ct,))
    >>> float(cv.grad(f)(0.0)), float(cv.jvp(f, (0.0,), (1.0,))[1])
    (2.0, 2.0)
    """

    def _without_rule(self) -> None:
        self.fwd: Any = None
        self.bwd: Any = None
        self.symbolic_zeros = self.optimize_remat = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules.

        Args:
          fwd: of the function's arguments; gives (result, residuals), where the residuals are a
            pytree of arrays.
          bwd: `bwd(*nondiff, residuals, cotangent)` gives a tuple with the cotangent of each
            argument that is not nondiff; None stands for zeros, of whole subtrees too.
          symbolic_zeros: the leaves of `fwd`'s arguments are CustomVJPPrimals, and cotangents that
            are zero are SymbolicZeros.
          optimize_remat: a hint that `fwd` without its residuals costs what the function does.
        """
        check_callable(fwd, "defvjp")
        check_callable(bwd, "defvjp")
        if optimize_remat and symbolic_zeros:
            raise NotImplementedError(
                "remat optimization for custom_vjp does not support symbolic zeros"
            )
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = symbolic_zeros, optimize_remat

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function; under a derivative, the rules."""
        name = name_of(self.fun)
        if self.fwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name} using defvjp.")
        every = by_position(self.fun, args, kwargs, "custom_vjp")
        places, moving = self._nondiff.split(every, self.fun, "custom_vjp")
        fixed = [every[k] for k in places]
        for k, x in zip(places, fixed, strict=True):
            if any(isinstance(leaf, Tracer) for leaf in tree.leaves(x)):
                raise UnexpectedTracerError(
                    f"Found a tracer passed as argument {k} of the custom_vjp function {name}, in "
                    "a position indicated by nondiff_argnums as non-differentiable. These must "
                    "not contain tracers; they are for arguments such as functions. Pass arrays "
                    "as ordinary arguments, and return None as their cotangent"
                )
        leaves, in_tree = tree.flatten(tuple(moving))
        check_values(leaves, tuple(moving), f"an argument of custom_vjp of {name}")
        call = _Call(self, places, fixed, in_tree)
        op = CustomCall(CustomVjpCall, call.value, call.forward, name)
        outs = op(*map(as_array, leaves))
        return tree.unflatten(call.out_tree, outs)


class _Call:
    """One call: function and rules as functions of flat values."""

    __slots__ = ("fixed", "in_tree", "of", "out_avals", "out_tree", "places")

    def __init__(
        self, of: custom_vjp, places: Sequence[int], fixed: Sequence[Any], in_tree: Any
    ) -> None:
        self.of, self.places, self.fixed, self.in_tree = of, places, fixed, in_tree
        #: The structure and types of the result, once known.
        self.out_tree: Any = None
        self.out_avals: Any = None

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments of the function."""
        return merged(self.places, self.fixed, tree.unflatten(self.in_tree, leaves))

    def value(self, *leaves: Any) -> list[Any]:
        """The function."""
        fun = self.of.fun
        result = run(fun, *self.arguments(leaves))
        outs, self.out_tree = tree.flatten(result)
        check_values(outs, result, f"the result of custom_vjp function {name_of(fun)}")
        self.out_avals = avals_of(outs)
        return outs

    def forward(self, primals: Sequence[Any], moving: Sequence[bool]) -> Forward:
        """The forward rule."""
        of = self.of
        shown: Sequence[Any] = primals
        if of.symbolic_zeros:
            shown = [CustomVJPPrimal(x, m) for x, m in zip(primals, moving, strict=True)]
        made = run(of.fwd, *self.arguments(shown))
        title = f"Custom VJP fwd rule {name_of(of.fwd)} for function {name_of(of.fun)}"
        result, residuals = pair_of(
            made,
            f"{title} must produce a pair (list or tuple of length two) where the first element "
            f"represents the primal output (equal to those of the custom_vjp-decorated function "
            f"{name_of(of.fun)}) and the second element represents residuals (i.e. values stored "
            "from the forward pass for use on the backward pass)",
        )
        outs, out_tree = tree.flatten(result)
        kept, kept_tree = tree.flatten(residuals)
        check_values(outs, result, f"the primal output of {title}")
        check_values(kept, residuals, f"a residual of {title}")
        avals = avals_of(outs)
        if self.out_avals is not None:
            check_like_function(
                title + ": the first element of its pair", of.fun, (out_tree, avals),
                (self.out_tree, self.out_avals),
            )  # fmt: skip
        self.out_tree = out_tree
        inputs = avals_of(primals)

        def back(values: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            given = [
                zero_of(tangent_aval(a), of.symbolic_zeros) if ct is None else as_array(ct)
                for ct, a in zip(cts, avals, strict=True)
            ]
            ct = tree.unflatten(out_tree, given)
            made = run(of.bwd, *self.fixed, tree.unflatten(kept_tree, values), ct)
            return self.cotangents(made, inputs)

        return Forward(outs, kept, back)

    def cotangents(self, made: Any, avals: Sequence[Any]) -> list[Any]:
        """What the backward rule gave, a cotangent (or None) for each flat argument."""
        if isinstance(made, list):
            made = tuple(cast("list[Any]", made))
        found: list[Any] = []

        def add(ct: Any, part: Any) -> None:
            count = tree.structure(part).num_leaves
            if ct is None:
                found.extend([None] * count)
            elif tree.structure(part) == _LEAF:
                found.append(ct)
            else:
                raise ValueError("a leaf in the place of a tree")

        whole = tree.unflatten(self.in_tree, list(range(len(avals))))
        try:
            if not isinstance(made, tuple):
                raise ValueError("not a tuple")
            tree.map(add, made, whole, is_leaf=lambda x: x is None)
        except (ValueError, TypeError):
            raise TypeError(
                "Custom VJP bwd rule must produce an output with the same container (pytree) "
                "structure as the args tuple of the primal function, and in particular must "
                "produce a tuple of length equal to the number of arguments to the primal "
                f"function, but got bwd output structure {tree.structure(made)} for primal input "
                f"structure {self.in_tree}."
            ) from None
        pairs = enumerate(zip(found, avals, strict=True))
        return [self._checked(k, ct, a, whole) for k, (ct, a) in pairs]

    def _checked(self, k: int, ct: Any, aval: Any, whole: Any) -> Any:
        """A cotangent that fits its argument, None where it is zero or there is no derivative."""
        wanted = tangent_aval(aval)
        if ct is None or isinstance(ct, SymbolicZero) or wanted.dtype == dtypes.float0:
            return None
        given = typeof(ct)
        fits = np.complexfloating if dtypes.issubdtype(wanted.dtype, np.complexfloating) else (
            np.floating
        )  # fmt: skip
        real = not dtypes.issubdtype(given.dtype, np.complexfloating)
        what = "shapes" if given.shape != wanted.shape else "dtypes"
        if given.shape != wanted.shape or not (real or fits is np.complexfloating):
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple "
                f"of the primal function, but at output{path_in(whole, k)} the bwd rule produced "
                f"an output of type {shorts([given])} corresponding to an input of type "
                f"{shorts([aval])}, so the {what} do not match"
            )
        if given.dtype == wanted.dtype:
            return as_array(ct)
        return ops.cast.convert_element_type(ct, wanted.dtype, wanted.weak_type)


_LEAF = tree.structure(0)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its own gradient: `fun` gives (result, function from the result's cotangent
    to those of the arguments).

    With several arguments the inner function gives a tuple of cotangents.  It may use values of
    the computation of the result.

    >>> import covector as cv
    >>> @cv.custom_gradient
    ... def f(x):
    ...     return x**2, lambda ct: ct * 7
    >>> float(cv.grad(f)(3.0))
    7.0
    """
    check_callable(fun, "custom_gradient")

    def pair(args: Any, kwargs: Any) -> tuple[Any, Any]:
        return pair_of(
            fun(*args, **kwargs),
            f"custom_gradient: {name_of(fun)} must return a pair (result, function from its "
            "cotangent to those of the arguments)",
        )

    def value(args: Any, kwargs: Any) -> Any:
        return pair(args, kwargs)[0]

    def forward(args: Any, kwargs: Any) -> tuple[Any, Any]:
        result, rule = pair(args, kwargs)
        check_callable(rule, f"custom_gradient of {name_of(fun)}: the second result")
        cotangent = tree.map(_example, result)
        converted, hoisted = closure_convert(rule, cotangent)
        return result, (Partial(_call_with(converted), *hoisted), (args, kwargs))

    def backward(residuals: Any, ct: Any) -> Any:
        rule, (args, _) = residuals
        made: Any = rule(ct)
        if len(args) == 1 and not _is_single(made):
            made = (made,)
        return made if type(made) is not list else tuple(cast("list[Any]", made)), None

    wrapped = custom_vjp(value)
    wrapped.__dict__["__name__"] = name_of(fun)
    wrapped.defvjp(forward, backward)

    @functools.wraps(fun)
    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        return wrapped(args, kwargs)

    return with_gradient


def _example(x: Any) -> Any:
    """A cotangent of `x`."""
    aval = tangent_aval(typeof(x))
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return ops.shape.zeros(aval)


def _call_with(converted: Callable[..., Any]) -> Callable[..., Any]:
    """`converted` with what it closed over first."""
    return lambda *values: converted(values[-1], *values[:-1])


def _is_single(made: Any) -> bool:
    return type(made) in (tuple, list) and len(made) == 1
