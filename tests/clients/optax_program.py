"""Trains a small net with optax in several ways, and prints what came out as JSON.

Run as `python -m tests.clients.optax_program covector`, or `jax`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import numpy as np


def optimizers(optax: Any) -> dict[str, Any]:
    cosine = optax.cosine_decay_schedule(0.05, 20)
    warm = optax.warmup_cosine_decay_schedule(0.0, 0.05, 5, 20, 0.001)
    return {
        "adam": optax.adam(1e-2),
        "sgd": optax.sgd(0.05, momentum=0.9, nesterov=True),
        "adamw": optax.adamw(warm, weight_decay=1e-2),
        "chain": optax.chain(
            optax.clip_by_global_norm(0.5), optax.scale_by_adam(), optax.add_decayed_weights(1e-3),
            optax.scale_by_schedule(lambda n: -cosine(n)),
        ),
        "rmsprop": optax.rmsprop(1e-2, centered=True),
        "lamb": optax.lamb(1e-2),
        "masked": optax.masked(optax.sgd(0.1), {"w1": True, "b1": False, "w2": True}),
        "piecewise": optax.sgd(optax.piecewise_constant_schedule(0.1, {5: 0.5, 10: 0.1})),
        "multi": optax.multi_transform(
            {"fast": optax.adam(1e-2), "slow": optax.sgd(1e-3)},
            {"w1": "fast", "b1": "slow", "w2": "fast"},
        ),
    }  # fmt: skip


def main(library: str) -> None:
    if library == "covector":
        importlib.import_module("tests.clients.alias").install()
    jax = importlib.import_module("jax")
    optax = importlib.import_module("optax")
    jnp = jax.numpy
    rng = np.random.default_rng(0)
    start = {
        "w1": jnp.asarray(rng.normal(size=(5, 8)).astype("f") * 0.5),
        "b1": jnp.zeros(8),
        "w2": jnp.asarray(rng.normal(size=(8, 3)).astype("f") * 0.5),
    }
    x = jnp.asarray(rng.normal(size=(32, 5)).astype("f"))
    labels = jnp.asarray(rng.integers(3, size=32))

    def loss(p: Any) -> Any:
        logits = jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    out: dict[str, Any] = {"library": jax.__name__}
    for name, optimizer in optimizers(optax).items():

        @jax.jit
        def step(p: Any, state: Any, optimizer: Any = optimizer) -> Any:
            value, slope = jax.value_and_grad(loss)(p)
            updates, state = optimizer.update(slope, state, p)
            return optax.apply_updates(p, updates), state, value

        p, state, values = start, optimizer.init(start), []
        for _ in range(15):
            p, state, value = step(p, state)
            values.append(float(value))
        norms = [float(jnp.linalg.norm(v)) for v in jax.tree_util.tree_leaves(p)]
        out[name] = values[::5] + norms
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
