"""Whole programs: training steps when they run and when they start, and the import before that."""

import itertools

import numpy as np

from benchmarks.row import Kind, floats, row

RATE = 0.1


def mlp_params(rng, sizes):
    return [
        {"w": floats(rng, n, m, scale=(2 / n) ** 0.5), "b": floats(rng, m, scale=0.01)}
        for n, m in itertools.pairwise(sizes)
    ]


def mlp_inputs(batch, sizes=(784, 512, 512, 10)):
    """Draws parameters, and a batch of images with their classes, one-hot."""

    def draw(rng):
        labels = rng.integers(sizes[-1], size=batch)
        images = floats(rng, batch, sizes[0])
        return mlp_params(rng, sizes), images, np.eye(sizes[-1], dtype=np.float32)[labels]

    return draw


def mlp_loss(lib):
    """The loss of a batch, or of one example; what stands before the last axis."""
    xp = lib.numpy

    def loss(params, images, targets):
        x = images
        for layer in params[:-1]:
            x = lib.nn.relu(x @ layer["w"] + layer["b"])
        logits = x @ params[-1]["w"] + params[-1]["b"]
        return -xp.mean(xp.sum(targets * lib.nn.log_softmax(logits), axis=-1))

    return loss


def training_step(lib, loss):
    """The parameters after a step of gradient descent, and the loss before it."""

    def step(params, *examples):
        value, slope = lib.value_and_grad(loss)(params, *examples)
        return lib.tree.map(lambda p, s: p - RATE * s, params, slope), value

    return lib.jit(step)


def torch_step(torch, loss):
    """As `training_step`, of tensors."""

    def moved(params, slopes):
        match params:
            case dict():
                return {key: moved(params[key], slopes[key]) for key in params}
            case list() | tuple():
                return type(params)(map(moved, params, slopes))
        return params - RATE * slopes

    def step(params, *examples):
        slopes, value = torch.func.grad_and_value(loss)(params, *examples)
        return moved(params, slopes), value

    return step


def mlp_step(lib):
    return training_step(lib, mlp_loss(lib))


def mlp_in_torch(torch):
    def loss(params, images, targets):
        x = images
        for layer in params[:-1]:
            x = torch.relu(x @ layer["w"] + layer["b"])
        logits = x @ params[-1]["w"] + params[-1]["b"]
        return -torch.mean(torch.sum(targets * torch.log_softmax(logits, -1), -1))

    return torch_step(torch, loss)


def mlp_by_hand(params, images, targets):
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


@row(goal=0.8, inputs=mlp_inputs(128), rtol=1e-4)
def mlp(lib):
    """a training step, 784-512-512-10, batch 128: value_and_grad and gradient descent"""
    return mlp_step(lib)


mlp.numpy(mlp_by_hand)
mlp.torch(mlp_in_torch)


@row(goal=0.9, inputs=mlp_inputs(1024), rtol=1e-4)
def mlp_1024(lib):
    """the same with a batch of 1,024"""
    return mlp_step(lib)


mlp_1024.numpy(mlp_by_hand)
mlp_1024.torch(mlp_in_torch)


@row(goal=0.3, inputs=mlp_inputs(32, (4, 16, 2)), rtol=1e-4)
def mlp_tiny(lib):
    """a training step, 4-16-2, batch 32"""
    return mlp_step(lib)


mlp_tiny.numpy(mlp_by_hand)


@row(goal=0.6, inputs=mlp_inputs(64), rtol=1e-4)
def example_grads(lib):
    """the gradient for each of 64 examples, 784-512-512-10: grad under vmap"""
    return lib.jit(lib.vmap(lib.grad(mlp_loss(lib)), in_axes=(None, 0, 0)))


BATCH, PLACES, WIDTH, HEADS, WORDS = 8, 128, 256, 8, 1000


def block_params(rng):
    def weights(*shape):
        return floats(rng, *shape, scale=shape[0] ** -0.5)

    return {
        "qkv": weights(WIDTH, 3, HEADS, WIDTH // HEADS),
        "out": floats(rng, HEADS, WIDTH // HEADS, WIDTH, scale=WIDTH**-0.5),
        "up": weights(WIDTH, 4 * WIDTH),
        "down": weights(4 * WIDTH, WIDTH),
        "gain": np.ones((2, WIDTH), np.float32),
    }


def transformer_inputs(rng):
    params = {
        "words": floats(rng, WORDS, WIDTH, scale=0.1),
        "places": floats(rng, PLACES, WIDTH, scale=0.1),
        "blocks": [block_params(rng) for _ in range(2)],
    }
    return params, rng.integers(WORDS, size=(BATCH, PLACES + 1), dtype=np.int32)


def transformer_loss(lib):
    """The mean loss of the next word, by a pre-norm decoder (Vaswani et al. 2017)."""
    xp = lib.numpy

    def norm(x, gain):
        x = x - xp.mean(x, axis=-1, keepdims=True)
        return x * lib.lax.rsqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain

    def attend(block, x):
        q, k, v = xp.einsum("bpw,wnhd->nbhpd", x, block["qkv"])
        scores = xp.einsum("bhqd,bhkd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
        past = xp.tril(xp.ones((PLACES, PLACES), bool))
        weights = lib.nn.softmax(xp.where(past, scores, -1e9))
        return xp.einsum("bhqk,bhkd,hdw->bqw", weights, v, block["out"])

    def loss(params, text):
        x = params["words"][text[:, :-1]] + params["places"]
        for block in params["blocks"]:
            x = x + attend(block, norm(x, block["gain"][0]))
            hidden = lib.nn.gelu(norm(x, block["gain"][1]) @ block["up"])
            x = x + hidden @ block["down"]
        log_p = lib.nn.log_softmax(x @ params["words"].T)
        return -xp.mean(xp.take_along_axis(log_p, text[:, 1:, None], axis=-1))

    return loss


def transformer_step(lib):
    return training_step(lib, transformer_loss(lib))


@row(goal=0.6, inputs=transformer_inputs, rtol=1e-3)
def transformer(lib):
    """a training step of a decoder: batch 8, 128 places, width 256, 2 layers, 1,000 words"""
    return transformer_step(lib)


def scalar_function(lib):
    return lib.jit(lambda x: x * lib.numpy.sin(x) + 1)


def unrolled(lib):
    def long(x):
        for i in range(125):
            x = lib.numpy.sin(x) * (1 + i / 1000) + x / 2
        return x

    return lib.jit(long)


@row(goal=0.5, inputs=lambda rng: (floats(rng),), rtol=1e-5, kind=Kind.COLD)
def scalar_first(lib):
    """first call of x * sin(x) + 1 of a scalar: trace, compile, run"""
    return scalar_function(lib)


@row(goal=0.1, inputs=lambda rng: (floats(rng),), rtol=1e-5, kind=Kind.WARM)
def scalar_first_cached(lib):
    """the same in a new process, compiled code on disk from an earlier one"""
    return scalar_function(lib)


@row(goal=0.5, inputs=mlp_inputs(128), rtol=1e-4, kind=Kind.COLD)
def mlp_first(lib):
    """first call of the training step of `mlp`: trace, compile, run"""
    return mlp_step(lib)


@row(goal=0.1, inputs=mlp_inputs(128), rtol=1e-4, kind=Kind.WARM)
def mlp_first_cached(lib):
    """the same in a new process, compiled code on disk from an earlier one"""
    return mlp_step(lib)


@row(goal=0.5, inputs=lambda rng: (floats(rng, 100),), rtol=1e-4, kind=Kind.COLD)
def unrolled_first(lib):
    """first call of 500 operations, unrolled, over 100 floats: trace, compile, run"""
    return unrolled(lib)


@row(goal=0.1, inputs=lambda rng: (floats(rng, 100),), rtol=1e-4, kind=Kind.WARM)
def unrolled_first_cached(lib):
    """the same in a new process, compiled code on disk from an earlier one"""
    return unrolled(lib)


@row(goal=0.5, inputs=transformer_inputs, rtol=1e-3, kind=Kind.COLD)
def transformer_first(lib):
    """first call of the training step of `transformer`: trace, compile, run"""
    return transformer_step(lib)


@row(goal=0.1, inputs=transformer_inputs, rtol=1e-3, kind=Kind.WARM)
def transformer_first_cached(lib):
    """the same in a new process, compiled code on disk from an earlier one"""
    return transformer_step(lib)


@row(kind=Kind.IMPORT, numpy_goal=1.5)
def import_library(lib):
    """the import of the library and its `numpy` module"""
    return lambda: None
