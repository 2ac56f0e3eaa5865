"""Functions for neural networks: activations, normalisation, attention, initial weights."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.nn import initializers
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
    from covector.nn.scaled import (
        get_scaled_dot_general_config,
        scaled_dot_general,
        scaled_matmul,
    )

from covector import _wiring as _wiring  # after the door is made: it comes in here

__all__ = [
    "celu",
    "dot_product_attention",
    "elu",
    "gelu",
    "get_scaled_dot_general_config",
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
    "scaled_dot_general",
    "scaled_matmul",
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
