"""Algebra that is exact: identities that hold for every IEEE value, and views merged into one.

`x + 0.0` is not `x` (for -0.0), `x * 0.0` is not 0.0 (for NaN): those stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from covector import dtypes
from covector.compiler.passes.rewrite import Writer
from covector.ir.jaxpr import Atom, Equation, Jaxpr, Literal, Var
from covector.ir.op import Op

#: What makes each variable that has been written, for looking one equation back.
Made = dict[Any, Equation]
Rule = Callable[[Equation, list[Any], Made, Writer], Atom | None]


def simplify(jaxpr: Jaxpr) -> Jaxpr:
    """The program with every rule below applied once, in order of the equations."""
    out = Writer()
    made: Made = {}
    for eqn in jaxpr.eqns:
        invars = out.reads(eqn.invars)
        rule = RULES.get(eqn.op.name)
        if rule is not None and len(eqn.outvars) == 1:
            count = len(out.eqns)
            new = rule(eqn, invars, made, out)
            for added in out.eqns[count:]:
                made[added.outvars[0]] = added
            if new is not None and _same_type(new, eqn.outvars[0]):
                out.env[eqn.outvars[0]] = new
                continue
        out.copy(eqn, invars)
        for v in eqn.outvars:
            made[v] = out.eqns[-1]
    return out.finish(jaxpr)


def _same_type(new: Atom, old: Any) -> bool:
    return new.aval.shape == old.aval.shape and new.aval.dtype == old.aval.dtype


def _before(v: Any, made: Made, name: str) -> Equation | None:
    """The equation that made `v`, if it is a `name`."""
    eqn = made.get(v) if isinstance(v, Var) else None
    return eqn if eqn is not None and eqn.op.name == name else None


def _number(v: Any, made: Made) -> Any:
    """The scalar that `v` is everywhere, or None."""
    while not isinstance(v, Literal):
        eqn = _before(v, made, "broadcast_in_dim")
        if eqn is None:
            return None
        v = eqn.invars[0]
    return v.val


def _is(v: Any, made: Made, number: float) -> bool:
    """Whether `v` is `number` everywhere; -0.0 is not 0.0."""
    value = _number(v, made)
    if value is None or dtypes.kind_of(v.aval.dtype) not in "iufc":
        return False
    value = complex(value)
    return value == number and (number != 0 or np.copysign(1, value.real) == np.copysign(1, number))


def _inexact(v: Any) -> bool:
    return dtypes.kind_of(v.aval.dtype) in "fc"


# Arithmetic


def _add(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    for x, y in (args, args[::-1]):
        if _is(y, made, -0.0 if _inexact(y) else 0) and dtypes.kind_of(y.aval.dtype) != "c":
            return x
    return None


def _sub(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    x, y = args
    return x if _is(y, made, 0.0) and dtypes.kind_of(y.aval.dtype) != "c" else None


def _mul(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    for x, y in (args, args[::-1]):
        if _is(y, made, 1) and dtypes.kind_of(y.aval.dtype) != "c":
            return x
        if not _inexact(y) and _is(y, made, 0):
            return y
    return None


def _div(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    x, y = args
    if dtypes.kind_of(y.aval.dtype) != "f":
        return x if _is(y, made, 1) and dtypes.kind_of(y.aval.dtype) in "iu" else None
    value = _number(y, made)
    if value is None:
        return None
    if value == 1:
        return x
    mantissa, exponent = np.frexp(float(value))
    if abs(mantissa) == 0.5 and abs(exponent) < 14 and isinstance(y, Literal):
        # By a power of two: the product with its reciprocal is the same number.
        reciprocal = Literal(np.asarray(1 / float(value), y.aval.dtype)[()], y.aval)
        return out.emit(Op.registry["mul"](), [x, reciprocal], eqn)
    return None


def _scale(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    """The mask is not needed where the coefficient is finite, or the tangent known not to be 0."""
    t, c = args
    tangent, coefficient = _number(t, made), _number(c, made)
    finite = coefficient is not None and np.isfinite(complex(coefficient))
    if not finite and (tangent is None or tangent == 0):
        return None
    return out.emit(Op.registry["mul"](), [t, c], eqn)


def _scale_both(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    """No mask is needed if one of the factors is finite and not 0."""
    for number in (_number(x, made) for x in args):
        if number is not None and number != 0 and np.isfinite(complex(number)):
            return out.emit(Op.registry["mul"](), args, eqn)
    return None


def _involution(name: str) -> Rule:
    def rule(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
        inner = _before(args[0], made, name)
        return inner.invars[0] if inner is not None and inner.op == eqn.op else None

    return rule


def _idempotent(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    return args[0] if args[0] is args[1] else None


def _select(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    which, *cases = args
    if all(c is cases[0] for c in cases) and isinstance(cases[0], Var):
        return cases[0]
    value = _number(which, made)
    return cases[int(value)] if value is not None and 0 <= int(value) < len(cases) else None


def _power(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    y: Any = eqn.op.params.get("y")
    if y == 1:
        return args[0]
    return None


def _cast(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    (x,) = args
    new = eqn.outvars[0].aval.dtype
    if x.aval.dtype == new:
        return x
    inner = _before(x, made, eqn.op.name)
    if inner is not None and _holds(inner.invars[0].aval.dtype, x.aval.dtype):
        first = inner.invars[0]
        old = first.aval.dtype
        if old == new:
            return first
        if not isinstance(first, Literal) and not _saturates(old, x.aval.dtype, new):
            return out.emit(eqn.op, [first], eqn)
    return None


def _saturates(old: Any, middle: Any, new: Any) -> bool:
    """Whether an integer that `new` doesn't have becomes its last one: from an integer it wraps."""
    integers = dtypes.kind_of(old) in "iu" and dtypes.kind_of(new) in "iu"
    return integers and dtypes.kind_of(middle) == "f" and not _holds(old, new)


def _holds(narrow: Any, wide: Any) -> bool:
    """Whether every value of dtype `narrow` is one of `wide`, so that a cast there is exact."""
    if isinstance(narrow, dtypes.ExtendedDType) or isinstance(wide, dtypes.ExtendedDType):
        return False
    a, b = dtypes.kind_of(narrow), dtypes.kind_of(wide)
    if a == "b":
        return b in "iuf"
    if a in "iu" and b in "iu":
        bits = wide.itemsize * 8 - (b == "i"), narrow.itemsize * 8 - (a == "i")
        return bits[0] >= bits[1] and (a == "u" or b == "i")
    if a == b == "f":
        x, y = dtypes.finfo(narrow), dtypes.finfo(wide)
        return x.nmant <= y.nmant and x.maxexp <= y.maxexp and x.minexp >= y.minexp
    if a in "iu" and b == "f":
        return narrow.itemsize * 8 - (a == "i") <= dtypes.finfo(wide).nmant + 1
    return False


# Views


def _transpose(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    permutation: tuple[int, ...] = eqn.op.params["permutation"]
    (x,) = args
    inner = _before(x, made, "transpose")
    if inner is not None:
        x = inner.invars[0]
        permutation = tuple(inner.op.params["permutation"][d] for d in permutation)
    if permutation == tuple(range(len(permutation))):
        return x
    if inner is not None:
        return out.emit(eqn.op.with_params(permutation=permutation), [x], eqn)
    return None


def _reshape(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    (x,) = args
    shape = eqn.outvars[0].aval.shape
    if x.aval.shape == shape:
        return x
    inner = next((e for n in _RESHAPES if (e := _before(x, made, n)) is not None), None)
    if inner is None:
        dims = _inserted(x.aval.shape, shape)
        if dims is None or isinstance(x, Literal):
            return None
        return out.emit(Op.registry["broadcast_in_dim"](shape, dims), [x], eqn)
    first = inner.invars[0]
    if first.aval.shape == shape:
        return first
    if isinstance(first, Literal):
        return None
    return out.emit(Op.registry["reshape"](shape), [first], eqn)


def _inserted(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Where the axes of `old` are in `new`, if `new` is `old` with axes of 1 put in; else None."""
    dims: list[int] = []
    for d, n in enumerate(new):
        if len(dims) < len(old) and old[len(dims)] == n:
            dims.append(d)
        elif n != 1:
            return None
    return tuple(dims) if len(dims) == len(old) and len(new) > len(old) else None


_RESHAPES = ("reshape", "squeeze", "expand_dims")


def _broadcast(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    (x,) = args
    params = eqn.op.params
    dims: tuple[int, ...] = params["broadcast_dimensions"]
    if x.aval.shape == params["shape"] and dims == tuple(range(len(dims))):
        return x
    inner = _before(x, made, "broadcast_in_dim")
    if inner is None:
        return None
    joined = tuple(dims[d] for d in inner.op.params["broadcast_dimensions"])
    return out.emit(eqn.op.with_params(broadcast_dimensions=joined), [inner.invars[0]], eqn)


def _unchanged(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    """A slice, pad or concatenation that changes nothing has the shape of its operand; a pad
    or slice to the same shape may still shift, so only those that cannot are listed."""
    params = eqn.op.params
    x = args[0]
    if x.aval.shape != eqn.outvars[0].aval.shape:
        return None
    if eqn.op.name == "slice":
        strides = params.get("strides")
        return x if strides is None or all(s == 1 for s in strides) else None
    if eqn.op.name == "pad":
        return x if all(tuple(c) == (0, 0, 0) for c in params["padding_config"]) else None
    return x if len(args) == 1 else None


def _no_axes(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    (x,), axes = args, eqn.op.params["axes"]
    if not axes:
        return x
    if all(x.aval.shape[d] == 1 for d in axes):
        return out.emit(Op.registry["reshape"](eqn.outvars[0].aval.shape), [x], eqn)
    return None


def _itself(eqn: Equation, args: list[Any], made: Made, out: Writer) -> Atom | None:
    return args[0] if isinstance(args[0], Var) else None


RULES: Final[dict[str, Rule]] = {
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "scale_tangent": _scale,
    "scale_tangents": _scale_both,
    "neg": _involution("neg"),
    "not": _involution("not"),
    "conj": _involution("conj"),
    "rev": _involution("rev"),
    "max": _idempotent,
    "min": _idempotent,
    "and": _idempotent,
    "or": _idempotent,
    "select_n": _select,
    "integer_pow": _power,
    "convert_element_type": _cast,
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "broadcast_in_dim": _broadcast,
    "slice": _unchanged,
    "pad": _unchanged,
    "concatenate": _unchanged,
    "reduce_sum": _no_axes,
    "reduce_max": _no_axes,
    "reduce_min": _no_axes,
    "reduce_prod": _no_axes,
    "copy": _itself,
    "stop_gradient": _itself,
}
