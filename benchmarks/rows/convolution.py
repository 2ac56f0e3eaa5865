"""Convolutions: a layer and its gradients, a small network's training step, a transposed one."""

import itertools

import numpy as np

from benchmarks.row import floats, row
from benchmarks.rows.programs import torch_step, training_step

LAYOUT = ("NHWC", "HWIO", "NHWC")


def layer(lib):
    def apply(x, w):
        return lib.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAYOUT)

    return apply


def layer_inputs(rng):
    return floats(rng, 8, 56, 56, 64), floats(rng, 3, 3, 64, 64, scale=0.06)


@row(goal=0.8, inputs=layer_inputs, rtol=1e-4)
def convolution(lib):
    """a 3 x 3 convolution of 8 x 56 x 56 x 64 floats to 64 features"""
    return lib.jit(layer(lib))


@convolution.torch
def _(torch):
    def apply(x, w):
        out = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1)
        return out.permute(0, 2, 3, 1)

    return apply


@row(goal=0.8, inputs=lambda rng: (*layer_inputs(rng), floats(rng, 8, 56, 56, 64)), rtol=1e-3)
def convolution_gradient(lib):
    """both gradients of that"""
    return lib.jit(lambda x, w, ct: lib.vjp(layer(lib), x, w)[1](ct))


def cnn_loss(lib):
    """The loss of a batch: two convolutions with relu and pooling, a dense layer, cross-entropy."""
    xp, lax = lib.numpy, lib.lax

    def pooled(x):
        return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(params, images, targets):
        x = images
        for w, b in params["layers"]:
            x = pooled(lib.nn.relu(layer(lib)(x, w) + b))
        logits = x.reshape(x.shape[0], -1) @ params["w"] + params["b"]
        return -xp.mean(xp.sum(targets * lib.nn.log_softmax(logits), axis=-1))

    return loss


def cnn_inputs(rng):
    sizes = (1, 32, 64)
    layers = [
        (floats(rng, 3, 3, n, m, scale=(2 / (9 * n)) ** 0.5), floats(rng, m, scale=0.01))
        for n, m in itertools.pairwise(sizes)
    ]
    dense = {"w": floats(rng, 7 * 7 * 64, 10, scale=0.02), "b": floats(rng, 10, scale=0.01)}
    labels = rng.integers(10, size=64)
    return {"layers": layers, **dense}, floats(rng, 64, 28, 28, 1), np.eye(10, dtype="f4")[labels]


@row(goal=0.6, inputs=cnn_inputs, rtol=1e-3)
def cnn(lib):
    """a training step: 64 images of 28 x 28, two convolutions (32, 64) with relu and pooling"""
    return training_step(lib, cnn_loss(lib))


@cnn.torch
def _(torch):
    functional = torch.nn.functional

    def loss(params, images, targets):
        x = images.permute(0, 3, 1, 2)
        for w, b in params["layers"]:
            x = functional.conv2d(x, w.permute(3, 2, 0, 1), b, padding=1)
            x = functional.max_pool2d(torch.relu(x), 2)
        x = x.permute(0, 2, 3, 1)
        logits = x.reshape(x.shape[0], -1) @ params["w"] + params["b"]
        return -torch.mean(torch.sum(targets * torch.log_softmax(logits, -1), -1))

    return torch_step(torch, loss)


def upsampling(lib):
    def apply(x, w):
        words = ("NWC", "WIO", "NWC")
        return lib.lax.conv_transpose(x, w, (8,), "SAME", dimension_numbers=words)

    return apply


def upsampling_inputs(rng):
    return floats(rng, 4, 200, 256), floats(rng, 16, 256, 128, scale=0.02)


@row(goal=0.3, inputs=upsampling_inputs, rtol=1e-3)
def transposed_convolution(lib):
    """a transposed convolution: 4 x 200 x 256 to 4 x 1600 x 128, 16 wide, stride 8"""
    return lib.jit(upsampling(lib))


@transposed_convolution.torch
def _(torch):
    def apply(x, w):
        window = w.flip(0).permute(1, 2, 0)
        out = torch.nn.functional.conv_transpose1d(x.mT, window, stride=8, padding=4)
        return out.mT

    return apply


@row(
    goal=0.3,
    inputs=lambda rng: (*upsampling_inputs(rng), floats(rng, 4, 1600, 128)),
    rtol=1e-3,
)
def transposed_gradient(lib):
    """both gradients of that"""
    return lib.jit(lambda x, w, ct: lib.vjp(upsampling(lib), x, w)[1](ct))
