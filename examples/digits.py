"""Learn to read handwritten digits: `grad`, `jit` and `vmap` in one small program.

    python examples/digits.py [--epochs N] [--seed N] [--output PNG] [--quick]

A network with one hidden layer learns 1,437 images and is tested on 360 others. The same training
step, written by hand in NumPy, runs beside it: the results must agree, and both are timed.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import covector as cv
import covector.numpy as cnp
from covector import grad, jit, nn, random, vmap

DATA = Path(__file__).parent / "data" / "digits.npz"
HIDDEN, CLASSES = 128, 10
BATCH, RATE, MOMENTUM = 64, 0.1, 0.9
GOAL = 0.96


# 1. The data. NumPy arrays can be handed to Covector's functions as they are.


def load():
    """Training and test set, each a pair: images (n, 64) in [0, 1] and labels (n,)."""
    with np.load(DATA) as file:
        images = file["images"].reshape(-1, 64).astype(np.float32) / 16
        labels = file["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:1437], order[1437:]
    return (images[train], labels[train]), (images[test], labels[test])


def batches(rng, images, labels):
    """One epoch: all images in a new order, in whole batches."""
    order = rng.permutation(len(labels))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield images[chosen], labels[chosen]


# 2. The model, written for ONE image. Parameters are a pytree: any nesting of dicts, lists and
#    tuples with arrays at its leaves.


def init(key):
    """Weights with the variance 2 / inputs, which keeps the signal's size through a relu layer."""
    key1, key2 = random.split(key)
    return {
        "hidden": {
            "w": random.normal(key1, (64, HIDDEN)) * np.sqrt(2 / 64, dtype=np.float32),
            "b": cnp.zeros(HIDDEN),
        },
        "out": {
            "w": random.normal(key2, (HIDDEN, CLASSES)) * np.sqrt(2 / HIDDEN, dtype=np.float32),
            "b": cnp.zeros(CLASSES),
        },
    }


def logits(params, image):
    """Scores of the ten digits, shape (10,), for one image of shape (64,)."""
    hidden = nn.relu(image @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["out"]["w"] + params["out"]["b"]


def loss_of_one(params, image, label):
    """How surprised the model is by the true label: a scalar."""
    return -nn.log_softmax(logits(params, image))[label]


# `vmap` makes functions of many images from these: `None` for what all share, 0 for what has one
# row per image. No index was written for the batch, and no loop runs over it.
losses = vmap(loss_of_one, in_axes=(None, 0, 0))
predict = jit(lambda params, images: cnp.argmax(vmap(logits, (None, 0))(params, images), axis=1))


# 3. The training step. `value_and_grad` gives the loss and its derivative by every parameter, in a
#    pytree like `params`; `jit` compiles the whole step into one program.


def loss(params, images, labels):
    return cnp.mean(losses(params, images, labels))


@jit
def step(params, velocity, images, labels):
    """One step of gradient descent with momentum."""
    value, slope = cv.value_and_grad(loss)(params, images, labels)
    velocity = cv.tree.map(lambda v, s: MOMENTUM * v - RATE * s, velocity, slope)
    params = cv.tree.map(lambda p, v: p + v, params, velocity)
    return params, velocity, value


# 4. The same step by hand: what `grad` spares you.


def numpy_step(params, velocity, images, labels):
    hidden, out = params["hidden"], params["out"]
    before = images @ hidden["w"] + hidden["b"]
    after = np.maximum(before, 0)
    scores = after @ out["w"] + out["b"]
    scores -= scores.max(axis=1, keepdims=True)
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    value = -log_p[rows, labels].mean()

    d_scores = np.exp(log_p)
    d_scores[rows, labels] -= 1
    d_scores /= np.float32(len(labels))
    d_before = (d_scores @ out["w"].T) * (before > 0)
    slope = {
        "hidden": {"w": images.T @ d_before, "b": d_before.sum(axis=0)},
        "out": {"w": after.T @ d_scores, "b": d_scores.sum(axis=0)},
    }
    rate, momentum = np.float32(RATE), np.float32(MOMENTUM)
    new_params, new_velocity = {}, {}
    for layer in params:
        new_params[layer], new_velocity[layer] = {}, {}
        for name in params[layer]:
            v = momentum * velocity[layer][name] - rate * slope[layer][name]
            new_velocity[layer][name] = v
            new_params[layer][name] = params[layer][name] + v
    return new_params, new_velocity, value


# 5. Train, and compare.


def train(params, data, epochs, seed):
    """Parameters after `epochs` passes over the data, with a progress bar."""
    velocity = cv.tree.map(cnp.zeros_like, params)
    rng = np.random.default_rng(seed)
    with tqdm(range(epochs), desc="training", unit="epoch") as bar:
        for _ in bar:
            history = []
            for images, labels in batches(rng, *data):
                params, velocity, value = step(params, velocity, images, labels)
                history.append(value)
            bar.set_postfix(loss=f"{np.mean([float(value) for value in history]):.4f}")
    return params


def run_epoch(step, start, epoch):
    """The parameters and losses after an epoch, and the time of one step in seconds."""
    params, velocity = start
    history = []
    began = time.perf_counter()
    for images, labels in epoch:
        params, velocity, value = step(params, velocity, images, labels)
        history.append(value)
    cv.block_until_ready(params)  # calls may return before the work is done
    return params, np.array(history), (time.perf_counter() - began) / len(epoch)


def compare_with_numpy(params, data, seed, rounds=5):
    """Run one epoch on both sides, from one start and on the same batches, `rounds` times in turn.

    Returns the best time of a step, in seconds: Covector's and NumPy's. Raises AssertionError where
    the losses or the final parameters differ by more than the rounding of float32 explains.
    """
    epoch = list(batches(np.random.default_rng(seed), *data))
    start = (params, cv.tree.map(cnp.zeros_like, params))
    start_by_hand = cv.tree.map(np.array, start)
    ours, theirs = [], []
    for _ in range(rounds):
        trained, history, seconds = run_epoch(step, start, epoch)
        ours.append(seconds)
        by_hand, history_by_hand, seconds = run_epoch(numpy_step, start_by_hand, epoch)
        theirs.append(seconds)
        np.testing.assert_allclose(history, history_by_hand, rtol=1e-4)
        for layer in by_hand:
            for name in by_hand[layer]:
                np.testing.assert_allclose(
                    trained[layer][name], by_hand[layer][name], rtol=1e-3, atol=1e-4
                )
    return min(ours), min(theirs)


# 6. Look at the result. `grad` differentiates by the image as well (argument 1): which pixels speak
#    for, and which against, the digit that the model names? Again written for one image.


def evidence_of_one(params, image, digit):
    return grad(lambda image: nn.log_softmax(logits(params, image))[digit])(image)


evidence = jit(vmap(evidence_of_one, in_axes=(None, 0, 0)))


def draw(path, params, images, labels, predictions):
    """Twelve test images: the six that surprise the model most, and six others; each with its
    evidence below (red speaks for the predicted digit, blue against)."""
    hardest = np.argsort(-np.asarray(losses(params, images, labels)), kind="stable")
    shown = np.concatenate([hardest[:6], hardest[len(hardest) // 2 :][:6]])
    pixels = np.asarray(evidence(params, images[shown], predictions[shown]))

    figure = Figure(figsize=(9, 7.4), layout="constrained")
    axes = figure.subplots(4, 6)
    figure.suptitle("Test images, read by the model; below each, what speaks for its answer")
    for place, index in enumerate(shown):
        top, below = axes[2 * (place // 6), place % 6], axes[2 * (place // 6) + 1, place % 6]
        right = predictions[index] == labels[index]
        top.imshow(images[index].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        top.set_title(
            f"reads {predictions[index]}, is {labels[index]}",
            color="darkgreen" if right else "crimson",
            fontsize=10,
        )
        limit = np.abs(pixels[place]).max() or 1
        below.imshow(pixels[place].reshape(8, 8), cmap="bwr", vmin=-limit, vmax=limit)
    for axis in axes.flat:
        axis.set_axis_off()
    figure.savefig(path, dpi=120)


def main(argv=None):
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits.")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the data (60)")
    parser.add_argument("--seed", type=int, default=0, help="for weights and order (0)")
    parser.add_argument("--output", type=Path, default=Path("digits.png"), help="the picture")
    parser.add_argument("--quick", action="store_true", help="15 epochs at most")
    options = parser.parse_args(argv)
    epochs = min(options.epochs, 15) if options.quick else options.epochs

    data, (images, labels) = load()
    start = init(random.key(options.seed))
    params = train(start, data, epochs, options.seed)
    predictions = np.asarray(predict(params, images))
    accuracy = np.mean(predictions == labels)
    print(f"test accuracy: {accuracy:.1%} of {len(labels)} images")

    ours, theirs = compare_with_numpy(start, data, options.seed)
    print(f"one training step: Covector {ours * 1e6:.0f} µs, NumPy by hand {theirs * 1e6:.0f} µs")
    print("both agree on every loss and on the final parameters of an epoch")

    draw(options.output, params, images, labels, predictions)
    print(f"predictions drawn in {options.output}")
    if accuracy < GOAL:
        print(f"the accuracy should be at least {GOAL:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
