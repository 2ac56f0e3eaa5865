"""Public door: derivatives that the user states, by the names of ``jax.custom_derivatives``."""

from covector.api.custom_jvp import custom_jvp
from covector.api.custom_rules import SymbolicZero, zero_from_primal
from covector.api.custom_vjp import (
    CustomVJPPrimal,
    custom_gradient,
    custom_vjp,
    custom_vjp_primal_tree_values,
)
from covector.api.linear import closure_convert, linear_call
from covector.ops.custom import CustomJvpCall as custom_jvp_call_p
from covector.ops.custom import CustomVjpCall as custom_vjp_call_p

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]
