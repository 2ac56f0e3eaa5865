"""Functions for neural networks: activations, normalisation, attention, initial weights."""

from importlib import import_module as _import_module
from typing import Any as _Any

from covector.nn.functions import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    mish,
    one_hot,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    swish,
    tanh,
)
from covector.nn.normalising import (
    dot_product_attention,
    log_softmax,
    logmeanexp,
    logsumexp,
    softmax,
    standardize,
)

__all__ = [
    "celu",
    "dot_product_attention",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "initializers",
    "leaky_relu",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "mish",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "swish",
    "tanh",
]


def __getattr__(name: str) -> _Any:
    if name == "initializers":  # needs the random generators
        return _import_module("covector.nn.initializers")
    raise AttributeError(f"module 'covector.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
