"""How many kernels well-known programs become, written as users write them: these must not grow.

Planned at the sizes of the benchmarks; nothing is run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import covector as cv
from covector import nn, tree
from covector import numpy as cnp
from covector._base.config import config
from covector.compiler.pipeline import compile_program
from covector.compiler.program import KernelCall, LibraryCall


def array(*shape: int, dtype: str = "float32") -> cv.ShapeDtypeStruct:
    return cv.ShapeDtypeStruct(shape, dtype)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / cnp.sqrt(variance + 1e-5) * scale + shift


def layer_norm_gradient(x: Any, scale: Any, shift: Any) -> Any:
    return cv.grad(lambda *args: (layer_norm(*args) ** 2).sum())(x, scale, shift)


def layer_norm_gradients(ct: Any, x: Any, scale: Any, shift: Any) -> Any:
    """The pullback, to all three arguments."""
    return cv.vjp(layer_norm, x, scale, shift)[1](ct)


def cross_entropy(logits: Any, labels: Any) -> Any:
    picked = cnp.take_along_axis(nn.log_softmax(logits), labels[:, None], 1)
    return -picked.mean()


def loss(params: Any, x: Any, labels: Any) -> Any:
    *hidden, (weights, bias) = params
    for w, b in hidden:
        x = nn.relu(x @ w + b)
    return cross_entropy(x @ weights + bias, labels)


def mlp_step(params: Any, x: Any, labels: Any) -> Any:
    gradient = cv.grad(loss)(params, x, labels)
    return tree.map(lambda p, g: p - 0.1 * g, params, gradient)


def attention_scores(q: Any, k: Any) -> Any:
    return nn.softmax(cnp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5)


MLP = [(array(n, m), array(m)) for n, m in ((64, 256), (256, 128), (128, 10))]
ROWS, VECTOR = array(4096, 1024), array(10_000_000)
NORM = (ROWS, array(1024), array(1024))
LABELS = array(128, dtype="int32")
LINEAR = (array(512, 512), array(512, 512), array(512))

#: name -> (function, arguments, kernels, library calls).
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, int]] = {
    "softmax": (nn.softmax, (ROWS,), 1, 0),
    "log_softmax": (nn.log_softmax, (ROWS,), 1, 0),
    "layer_norm": (layer_norm, NORM, 1, 0),
    "layer_norm_gradient": (layer_norm_gradient, NORM, 1, 0),
    "layer_norm_gradients": (layer_norm_gradients, (ROWS, *NORM), 2, 0),
    "gelu": (nn.gelu, (VECTOR,), 1, 0),
    "variance": (lambda x: x.var(-1), (ROWS,), 1, 0),
    "mlp_step": (mlp_step, (MLP, array(128, 64), LABELS), 5, 8),
    "transpose_plus_1": (lambda x: x.T + 1, (array(4096, 4096),), 1, 0),
    "axpy": (lambda a, x, y: a * x + y, (array(), VECTOR, VECTOR), 1, 0),
    "cross_entropy": (cross_entropy, (array(128, 10), LABELS), 2, 0),
    "attention_scores": (attention_scores, (array(2, 4, 64, 32), array(2, 4, 64, 32)), 0, 1),
    # Bias and activation follow the product, part by part.
    "linear": (lambda x, w, b: nn.relu(x @ w + b), LINEAR, 0, 1),
    "cumsum_scale": (lambda x: 2.0 * cnp.cumsum(x, -1), (array(128, 256),), 2, 0),
}

#: One kernel that keeps nothing of the input's size in memory.
ONE_KERNEL = ("softmax", "log_softmax", "layer_norm", "gelu")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_of_kernels(name: str) -> None:
    function, arguments, kernels, calls = PROGRAMS[name]
    program, _ = compile_program(cv.jit(function).lower(*arguments).jaxpr)
    found = Counter(type(step) for step in program.steps)
    # Where it became fewer: well done, lower the number here.
    assert found == Counter({KernelCall: kernels, LibraryCall: calls}), str(program)


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_level_3_shows_one_kernel(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, arguments, *_ = PROGRAMS[name]
    with config.scoped(debug=3):
        cv.jit(function).lower(*arguments).compile()
    said = capsys.readouterr().err
    assert re.findall(r"^covector: after plan, .*$\n^program .* arena (\d+)$", said, re.M) == ["0"]
    assert re.findall(r"^k(\d+): kernel ", said, re.M) == ["0"]
    assert re.findall(r"^    call k(\d+)\(", said, re.M) == ["0"]
