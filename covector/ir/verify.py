"""What is legal in a Jaxpr; run after every pass of the compiler under the option enable_checks.

Each variable is defined once and before its use, the operations' `result` rules give the types
that the results are declared with, a literal is a scalar of its type, nested programs are legal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from covector import dtypes
from covector._base.errors import JaxprTypeError
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var


def verify(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raise JaxprTypeError, with the program's text, where a rule is broken.

    >>> x, y = Var(ShapedArray((), "float32")), Var(ShapedArray((), "float32"))
    >>> verify(Jaxpr([], [x], [x], []))
    >>> verify(Jaxpr([], [x], [y], []))
    Traceback (most recent call last):
    covector.errors.JaxprTypeError: a result is never defined...
    """
    if isinstance(jaxpr, ClosedJaxpr):
        if len(jaxpr.consts) != len(jaxpr.jaxpr.constvars):
            raise _broken(jaxpr.jaxpr, "constants and their variables are not equally many")
        jaxpr = jaxpr.jaxpr
    defined: set[Var] = set()
    _define([*jaxpr.constvars, *jaxpr.invars], defined, jaxpr, None)
    for n, eqn in enumerate(jaxpr.eqns):
        _check_operands(eqn.invars, defined, jaxpr, n)
        _check_types(eqn, jaxpr, n)
        _define(eqn.outvars, defined, jaxpr, n)
        for value in eqn.op.params.values():
            for nested in _programs(value):
                verify(nested)
    _check_operands(jaxpr.outvars, defined, jaxpr, None)


def _broken(jaxpr: Jaxpr, complaint: str) -> JaxprTypeError:
    return JaxprTypeError(f"{complaint}, in\n{jaxpr}")


def _place(jaxpr: Jaxpr, n: int) -> str:
    # Only for what is broken: an operation that holds programs has a long name.
    return f"equation {n} ({jaxpr.eqns[n].op})"


def _define(variables: Sequence[Any], defined: set[Var], jaxpr: Jaxpr, n: int | None) -> None:
    for v in variables:
        if isinstance(v, Var):
            if v in defined:
                where = "the arguments" if n is None else _place(jaxpr, n)
                raise _broken(jaxpr, f"{where}: a variable is defined twice")
            defined.add(v)


def _check_operands(atoms: Sequence[Any], defined: set[Var], jaxpr: Jaxpr, n: int | None) -> None:
    for v in atoms:
        if isinstance(v, Literal):
            scalar = np.asarray(v.val)
            legal = scalar.shape == v.aval.shape == () and (
                scalar.dtype == dtypes.physical_dtype(v.aval.dtype)
            )
            complaint = None if legal else f"is {scalar!r}, declared as {v.aval.str_short()}"
        else:
            complaint = None if v in defined else "is never defined, or only later"
        if complaint is not None:
            what = "a result" if n is None else f"an operand of {_place(jaxpr, n)}"
            raise _broken(jaxpr, f"{what} {complaint}")


def _check_types(eqn: Equation, jaxpr: Jaxpr, n: int) -> None:
    given: list[ShapedArray] = [v.aval for v in eqn.invars]
    try:
        out = eqn.op.result(*given)
    except (TypeError, ValueError) as error:
        raise _broken(jaxpr, f"{_place(jaxpr, n)} refuses its operands: {error}") from error
    wanted = list(out) if eqn.op.multiple_results else [out]
    declared = [v.aval for v in eqn.outvars]
    same = len(wanted) == len(declared) and all(
        a.strong() is b.strong() for a, b in zip(wanted, declared, strict=True)
    )
    if not same:
        told = f"gives {_types(wanted)}, declared as {_types(declared)}"
        raise _broken(jaxpr, f"{_place(jaxpr, n)} {told}")


def _types(avals: Iterable[ShapedArray]) -> str:
    return ", ".join(a.str_short() for a in avals)


def _programs(value: Any) -> list[Jaxpr | ClosedJaxpr]:
    """The programs that a parameter is, or holds."""
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return [value]
    if isinstance(value, (tuple, list)):
        items = cast("Sequence[Any]", value)
        return [program for item in items for program in _programs(item)]
    return []
