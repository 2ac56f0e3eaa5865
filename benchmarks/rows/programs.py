"""Whole programs: a training step when it runs and when it starts, and the import before that."""

import itertools

import numpy as np

from benchmarks.row import Kind, floats, row

SIZES = (784, 512, 512, 10)
BATCH = 128
RATE = 0.1


def mlp_inputs(rng):
    params = [
        {"w": floats(rng, n, m, scale=(2 / n) ** 0.5), "b": floats(rng, m, scale=0.01)}
        for n, m in itertools.pairwise(SIZES)
    ]
    images = floats(rng, BATCH, SIZES[0])
    labels = rng.integers(SIZES[-1], size=BATCH, dtype=np.int32)
    return params, images, np.eye(SIZES[-1], dtype=np.float32)[labels]


def mlp_step(lib):
    """The parameters and the loss after a step of gradient descent."""
    xp = lib.numpy

    def loss(params, images, targets):
        x = images
        for layer in params[:-1]:
            x = lib.nn.relu(x @ layer["w"] + layer["b"])
        logits = x @ params[-1]["w"] + params[-1]["b"]
        return -xp.mean(xp.sum(targets * lib.nn.log_softmax(logits), axis=1))

    def step(params, images, targets):
        value, slope = lib.value_and_grad(loss)(params, images, targets)
        return lib.tree.map(lambda p, s: p - RATE * s, params, slope), value

    return lib.jit(step)


@row(goal=1.0, inputs=mlp_inputs, rtol=1e-4)
def mlp(lib):
    """a training step, 784-512-512-10, batch 128: value_and_grad and gradient descent"""
    return mlp_step(lib)


@mlp.numpy
def _(params, images, targets):
    inputs = [images]
    for layer in params[:-1]:
        inputs.append(np.maximum(inputs[-1] @ layer["w"] + layer["b"], 0))
    logits = inputs[-1] @ params[-1]["w"] + params[-1]["b"]
    logits -= logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    value = -(targets * log_p).sum(axis=1).mean()

    ct = (np.exp(log_p) - targets) / np.float32(len(images))
    updated = []
    for layer, x in zip(reversed(params), reversed(inputs), strict=True):
        slope = {"w": x.T @ ct, "b": ct.sum(axis=0)}
        updated.append({k: layer[k] - np.float32(RATE) * slope[k] for k in layer})
        ct = (ct @ layer["w"].T) * (x > 0)
    return updated[::-1], value


@row(goal=1.0, inputs=mlp_inputs, rtol=1e-4, kind=Kind.COLD)
def mlp_first(lib):
    """its first call: trace, compile, run"""
    return mlp_step(lib)


@row(goal=0.3, inputs=mlp_inputs, rtol=1e-4, kind=Kind.WARM)
def mlp_first_cached(lib):
    """its first call in a new process, compiled code on disk from an earlier one"""
    return mlp_step(lib)


@row(kind=Kind.IMPORT)
def import_library(lib):
    """the import of the library and its `numpy` module"""
    return lambda: None
