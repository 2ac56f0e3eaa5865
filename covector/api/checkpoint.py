"""`checkpoint`: less memory for reverse mode, by computing again; its policies; what is saved."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, tree
from covector._base.boundary import api_boundary
from covector._base.containers import is_listed
from covector._base.context import context
from covector._base.named_tuple import NamedTuple
from covector.api.arguments import (
    Flat,
    argument_labels,
    as_argnums,
    avals_of,
    check_callable,
    check_values,
    name_of,
    signature_of,
)
from covector.api.arrays import as_array
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ops.remat import Checkpoint, Name, Offloadable, Policy
from covector.trace.cache import node_types, shared
from covector.trace.stage import known_inputs, trace_to_jaxpr
from covector.transforms.partial import linearize_flat
from covector.transforms.tools import tools

_no_value = object()


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: Any = _no_value,
) -> Callable[..., Any]:
    """`fun`, of whose intermediate values the backward pass computes again what it needs.

    Values and derivatives are those of `fun`; memory between the passes is exchanged for time.

    Args:
      fun: a function of arrays or pytrees of them.
      prevent_cse: keep the compiler from finding that the second computation repeats the first.
        In the body of a scan nothing is found anyway: there False may be faster.
      policy: which values are saved all the same: a function of a primitive, the types of its
        arguments and its parameters; see `checkpoint_policies`.
      static_argnums, static_argnames: arguments that are Python values, known while tracing.

    >>> import covector as cv
    >>> f = cv.checkpoint(lambda x: cv.numpy.sin(cv.numpy.sin(x)))
    >>> round(float(cv.grad(f)(1.0)), 4)
    0.36
    """
    check_callable(fun, "checkpoint")
    if concrete is not _no_value:
        raise NotImplementedError(
            "The `concrete` option to checkpoint is gone; use static_argnums for arguments whose "
            "values the function needs in Python"
        )
    if policy is not None:
        check_callable(policy, "checkpoint: policy")
    numbers = as_argnums(static_argnums, "checkpoint: static_argnums")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    barrier = any(prevent_cse) if is_listed(prevent_cse) else bool(prevent_cse)

    @api_boundary
    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        bound, given, key = _without_static(fun, numbers, names, args, kwargs)
        leaves, in_tree = tree.flatten(given)
        check_values(leaves, given, f"an argument of checkpoint of {name_of(fun)}")
        if context.trace.parent is None:  # nothing is differentiated
            return fun(*args, **kwargs)
        avals = avals_of(leaves)

        def trace() -> tuple[ClosedJaxpr, Any]:
            flat = Flat(bound, in_tree)
            labels = [
                f"argument {label} of {name_of(fun)}, called through checkpoint (which has a "
                "parameter static_argnums)"
                for label in argument_labels(fun, given, key[0])
            ]
            with known_inputs(leaves):
                return trace_to_jaxpr(flat, avals, name_of(fun), labels), flat.out_tree

        full = ("checkpoint", in_tree, avals, key)
        if _hashable(key):
            program, out_tree = shared(fun, full, trace, degrade=True, also=node_types(in_tree))
        else:
            program, out_tree = trace()
        op = Checkpoint(_lifted(program), name_of(fun), Policy(policy), barrier, False)
        return tree.unflatten(out_tree, op(*map(as_array, program.consts), *map(as_array, leaves)))

    return checkpointed


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _lifted(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its constants as leading arguments; one object for one program."""
    body = program.jaxpr
    found = body.derived.get("lifted")
    if found is None:
        invars = [*body.constvars, *body.invars]
        found = body.derived["lifted"] = ClosedJaxpr(body.replace(constvars=[], invars=invars))
    return found


def _without_static(
    fun: Any, numbers: Sequence[int], names: Sequence[str], args: Any, kwargs: Any
) -> tuple[Callable[..., Any], Any, Any]:
    """(function of the other arguments, these, a hashable key of the static ones)."""
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise ValueError(
                f"checkpoint of {name_of(fun)}: static_argnums={tuple(numbers)} must be in the "
                f"range of the positional arguments; got {len(args)}"
            )
    places = {n % len(args) for n in numbers}
    signature = signature_of(fun) if names else None
    parameters = list(signature.parameters) if signature is not None else []
    places |= {parameters.index(n) for n in names if n in parameters[: len(args)]}
    fixed = tuple((n, args[n]) for n in sorted(places))
    named = tuple(sorted((k, v) for k, v in kwargs.items() if k in names))

    def bound(*moving: Any, **options: Any) -> Any:
        given = iter(moving)
        full = [args[n] if n in places else next(given) for n in range(len(args))]
        return fun(*full, **options, **dict(named))

    functools.update_wrapper(bound, fun)
    rest = {k: v for k, v in kwargs.items() if k not in names}
    typed = tuple([(k, v.__class__, v) for k, v in (*fixed, *named)])
    dynamic = tuple(x for n, x in enumerate(args) if n not in places)
    return bound, (dynamic, rest), (tuple(sorted(places)), typed)


def remat(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | tuple[int, ...] = (),
    concrete: Any = _no_value,
) -> Callable[..., Any]:
    """As `checkpoint`.

    >>> import covector as cv
    >>> float(cv.grad(cv.remat(lambda x: x**2))(3.0))
    6.0
    """
    return checkpoint(
        fun,
        prevent_cse=prevent_cse,
        policy=policy,
        static_argnums=static_argnums,
        concrete=concrete,
    )


@api_boundary
def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, a tree of arrays, under a name that policies of `checkpoint` know.

    >>> import covector as cv
    >>> from covector.ad_checkpoint import checkpoint_name
    >>> keep = cv.checkpoint_policies.save_only_these_names("sine")
    >>> f = lambda x: cv.numpy.exp(checkpoint_name(cv.numpy.sin(x), "sine"))
    >>> f = cv.checkpoint(f, policy=keep)
    >>> float(cv.grad(f)(0.0))
    1.0
    """
    leaves, structure = tree.flatten(x)
    check_values(leaves, x, "the value of checkpoint_name")
    op = Name(str(name))
    return tree.unflatten(structure, [op(as_array(leaf)) for leaf in leaves])


# Policies: what of the values in a checkpoint is saved.

_CONTRACTIONS = frozenset({"dot_general", "conv_general_dilated"})


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Save everything: as without checkpoint."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Save nothing but the arguments: as without a policy."""
    return False


def dots_saveable(prim: Any, *_: Any, **__: Any) -> bool:
    """Save the results of contractions and convolutions."""
    return prim.name in _CONTRACTIONS


def dots_with_no_batch_dims_saveable(prim: Any, *_: Any, **params: Any) -> bool:
    """Save the results of contractions without batch axes, as dense layers have them."""
    if prim.name != "dot_general":
        return False
    _, (left, right) = params["dimension_numbers"]
    return not left and not right


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable[..., Any]:
    """Save the results of contractions without batch axes, in another kind of memory."""

    def policy(prim: Any, *avals: Any, **params: Any) -> Any:
        if dots_with_no_batch_dims_saveable(prim, *avals, **params):
            return Offloadable(offload_src, offload_dst)
        return False

    return policy


def save_only_these_names(*names_which_can_be_saved: str) -> Callable[..., Any]:
    """Save the values that `checkpoint_name` gave one of these names."""
    names = frozenset(names_which_can_be_saved)

    def policy(prim: Any, *_: Any, **params: Any) -> bool:
        return prim.name == "name" and params["label"] in names

    return policy


def save_any_names_but_these(*names_not_to_save: str) -> Callable[..., Any]:
    """Save the values that `checkpoint_name` gave any other name."""
    names = frozenset(names_not_to_save)

    def policy(prim: Any, *_: Any, **params: Any) -> bool:
        return prim.name == "name" and params["label"] not in names

    return policy


def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., Any]:
    """Save everything, except the values that `checkpoint_name` gave one of these names."""
    names = frozenset(names_not_to_save)

    def policy(prim: Any, *_: Any, **params: Any) -> bool:
        return prim.name != "name" or params["label"] not in names

    return policy


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Callable[..., Any]:
    """Save the values of the first names; those of the second in another kind of memory."""
    saved, moved = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    both = saved & moved
    if both:
        raise ValueError(
            f"save_and_offload_only_these_names: {sorted(both)} cannot be both saved and offloaded"
        )

    def policy(prim: Any, *_: Any, **params: Any) -> Any:
        if prim.name != "name":
            return False
        if params["label"] in moved:
            return Offloadable(offload_src, offload_dst)
        return params["label"] in saved

    return policy


def save_from_both_policies(
    policy_1: Callable[..., Any], policy_2: Callable[..., Any]
) -> Callable[..., Any]:
    """Save what at least one of the two saves."""
    first, second = Policy(policy_1), Policy(policy_2)

    def policy(prim: Any, *avals: Any, **params: Any) -> bool:
        return first.answer(prim, *avals, **params) or second.answer(prim, *avals, **params)

    return policy


checkpoint_policies = types.SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)


# What is saved.


class Residual(NamedTuple):
    """A value that the forward pass keeps for the backward pass: its type, where it is from."""

    aval: ShapedArray
    origin: str

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.aval.nbytes

    def __str__(self) -> str:
        return f"{self.aval.strong().str_short()} {self.origin}"


@api_boundary
def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Residual]:
    """What reverse mode of `f` keeps between its two passes, with bytes and the user's lines.

    >>> import covector as cv
    >>> from covector.ad_checkpoint import saved_residuals
    >>> [str(r) for r in saved_residuals(lambda x, y: x * y, 2.0, 3.0)]
    ['f32[] from the argument y', 'f32[] from the argument x']
    """
    check_callable(f, "saved_residuals")
    leaves, in_tree = tree.flatten((args, kwargs))
    check_values(leaves, (args, kwargs), f"an argument of saved_residuals of {name_of(f)}")
    avals = avals_of(leaves)
    labels = argument_labels(f, (args, kwargs))

    def residuals(*values: Any) -> list[Any]:
        flat = Flat(f, in_tree)
        varies = [dtypes.issubdtype(a.dtype, np.inexact) for a in avals]
        return linearize_flat(flat, values, avals, varies, tools)[2].consts

    body = trace_to_jaxpr(residuals, avals, name_of(f)).jaxpr
    found: dict[Any, Residual] = {}
    for v in body.outvars:
        if isinstance(v, Var):
            found.setdefault(v, Residual(v.aval, _origin(v, body, labels)))
    return list(found.values())


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what reverse mode of `f` keeps between its two passes, a line each.

    >>> import covector as cv
    >>> from covector.ad_checkpoint import print_saved_residuals
    >>> print_saved_residuals(lambda x, y: x * y, 2.0, 3.0)
    f32[] from the argument y
    f32[] from the argument x
    """
    for residual in saved_residuals(f, *args, **kwargs):
        print(residual)


def _origin(v: Any, body: Jaxpr, labels: Sequence[str]) -> str:
    """Where the value of a variable is from."""
    if isinstance(v, Literal) or v in body.constvars:
        return "from a constant"
    if v in body.invars:
        return f"from the argument {labels[body.invars.index(v)]}"
    eqn = next(e for e in body.eqns if v in e.outvars)
    return _made_by(eqn, eqn.outvars.index(v), lambda w: _origin(w, body, labels))


def _made_by(eqn: Equation, k: int, outer: Callable[[Any], str]) -> str:
    """Where result `k` of an equation is from; `outer` tells of its operands."""
    op = eqn.op
    program = op.params.get("jaxpr")
    if not isinstance(program, ClosedJaxpr):
        if op.name == "name":
            return f"named {op.params['label']!r} from {eqn.source}"
        return f"output of {op.name} from {eqn.source}"
    inner = program.jaxpr
    v = inner.outvars[k]
    if isinstance(v, Literal):
        return "from a constant"
    if v in inner.invars:
        n = inner.invars.index(v)
        if op.name == "scan":
            return f"output of scan from {eqn.source}"
        return outer(eqn.invars[n])

    def inside(w: Any) -> str:
        if isinstance(w, Literal):
            return "from a constant"
        if w in inner.invars:
            return outer(eqn.invars[inner.invars.index(w)])
        made = next(e for e in inner.eqns if w in e.outvars)
        return _made_by(made, made.outvars.index(w), inside)

    text = inside(v)
    return f"{text}, of each round of scan" if op.name == "scan" else text
