"""Native: the operators of Array.  Each looks in its entry first, then asks its Python function."""

from __future__ import annotations

from .capi import Py_IncRef, PyObject_Vectorcall
from .entry_code import try_index, try_row
from .language import stack, word
from .pool_code import context
from .structs import (
    FIRST_COMPARISON,
    FIRST_UNARY,
    MISS,
    OPERATOR_FALLBACKS,
    SUBSCRIPT,
    Entry,
    Object,
    Pattern,
)


def probe(which: word, args: word, count: word) -> word:
    """The result of an operator's record, MISS, or 0 with an exception."""
    entry = Entry(context.operators[which])
    if context.quiet[0] != 0 or entry == 0 or entry.index == 0:
        return MISS
    return try_index(entry.index, args, count, 0)


def ask(function: word, args: word, count: word) -> word:
    """Calls the Python function of an operator; NotImplemented if there is none."""
    if function == 0:
        Py_IncRef(context.not_implemented)
        return context.not_implemented
    return PyObject_Vectorcall(function, args, count, 0)


def binary(which: word, left: word, right: word) -> word:
    """`left OP right`, where one of them is an Array."""
    args = stack(2)
    args[0] = left
    args[1] = right
    found = probe(which, args, 2)
    if found != MISS:
        return found
    function = OPERATOR_FALLBACKS + 2 * which
    if Object(left).type != context.array_type:
        args[0] = right
        args[1] = left
        function = function + 1
    return ask(context.fallbacks[function], args, 2)


def unary(which: word, x: word) -> word:
    """`OP x`."""
    args = stack(1)
    args[0] = x
    found = probe(which, args, 1)
    if found != MISS:
        return found
    return ask(context.fallbacks[OPERATOR_FALLBACKS + 2 * which], args, 1)


def array_add(left: word, right: word) -> word:
    return binary(0, left, right)


def array_subtract(left: word, right: word) -> word:
    return binary(1, left, right)


def array_multiply(left: word, right: word) -> word:
    return binary(2, left, right)


def array_remainder(left: word, right: word) -> word:
    return binary(3, left, right)


def array_divmod(left: word, right: word) -> word:
    return binary(4, left, right)


def array_power(left: word, right: word, modulus: word) -> word:
    if modulus == context.none:
        return binary(5, left, right)
    args = stack(3)
    args[0] = left
    args[1] = right
    args[2] = modulus
    return ask(context.fallbacks[OPERATOR_FALLBACKS + 10], args, 3)


def array_lshift(left: word, right: word) -> word:
    return binary(6, left, right)


def array_rshift(left: word, right: word) -> word:
    return binary(7, left, right)


def array_and(left: word, right: word) -> word:
    return binary(8, left, right)


def array_xor(left: word, right: word) -> word:
    return binary(9, left, right)


def array_or(left: word, right: word) -> word:
    return binary(10, left, right)


def array_floor_divide(left: word, right: word) -> word:
    return binary(11, left, right)


def array_true_divide(left: word, right: word) -> word:
    return binary(12, left, right)


def array_matrix_multiply(left: word, right: word) -> word:
    return binary(13, left, right)


def array_compare(left: word, right: word, operator: word) -> word:
    """tp_richcompare: operator is 0 to 5 for <, <=, ==, !=, >, >=."""
    return binary(FIRST_COMPARISON + (operator & 7), left, right)


def array_negative(x: word) -> word:
    return unary(FIRST_UNARY, x)


def array_positive(x: word) -> word:
    return unary(FIRST_UNARY + 1, x)


def array_absolute(x: word) -> word:
    return unary(FIRST_UNARY + 2, x)


def array_invert(x: word) -> word:
    return unary(FIRST_UNARY + 3, x)


def array_subscript(x: word, key: word) -> word:
    """mp_subscript: `x[key]`."""
    entry = Entry(context.operators[SUBSCRIPT])
    known = entry != 0 and entry.index != 0
    if known and Object(key).type == context.int_type and context.quiet[0] == 0:
        found = try_row(Pattern(entry.index.rows), x, key)
        if found != MISS:
            return found
    return binary(SUBSCRIPT, x, key)
