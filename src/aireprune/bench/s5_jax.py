"""The official S5 classifier, written in JAX with the weights of one of ours: its arithmetic, jitted, to be timed.

Norm, bidirectional layer with an associative scan, half_glu2 gate, dropout over whole sequences, mean over time, linear
head, cross entropy; gradients of all weights.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from aireprune.models.s5 import S5Model

JAX = "official model, jitted JAX"


def jax_step(model: S5Model, x: np.ndarray, y: np.ndarray) -> Callable[[], float] | None:
    """A training step: x (b, L, d_input), classes y (b,) -> the loss, once all gradients are there. None without JAX."""
    if importlib.util.find_spec("jax") is None:
        return None
    import jax

    weights = {name: jax.numpy.asarray(value.detach().numpy()) for name, value in model.named_parameters()}
    config, blocks = model.config, len(model.layers)
    inputs, classes, key = jax.numpy.asarray(x), jax.numpy.asarray(y), jax.random.PRNGKey(0)

    @jax.jit
    def gradients(weights: Any, x: Any, y: Any, key: Any) -> Any:
        return jax.value_and_grad(lambda w: _loss(w, x, y, key, config.dropout, blocks))(weights)

    def step() -> float:
        loss, found = gradients(weights, inputs, classes, key)
        jax.block_until_ready(found)
        return float(loss)

    return step


def _loss(w: dict[str, Any], x: Any, y: Any, key: Any, dropout: float, blocks: int) -> Any:
    import jax

    z = x @ w["encoder.weight"].T + w["encoder.bias"]
    for number in range(blocks):
        part = {name.split(".", 2)[2]: value for name, value in w.items() if name.startswith(f"layers.{number}.")}
        z = _block(part, z, jax.random.split(jax.random.fold_in(key, number)), dropout)
    logits = z.mean(1) @ w["decoder.weight"].T + w["decoder.bias"]
    return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


def _block(w: dict[str, Any], z: Any, keys: Any, dropout: float) -> Any:
    import jax

    def drop(value: Any, key: Any) -> Any:
        if not dropout:
            return value
        keep = jax.random.bernoulli(key, 1 - dropout, (value.shape[0], 1, value.shape[2]))
        return jax.numpy.where(keep, value / (1 - dropout), 0.0)

    u = (z - z.mean((0, 1))) / jax.numpy.sqrt(z.var((0, 1)) + 1e-5) * w["norm.weight"] + w["norm.bias"]
    y = jax.vmap(lambda sequence: _layer(w, sequence))(u)
    g = drop(jax.nn.gelu(y), keys[0])
    return z + drop(y * jax.nn.sigmoid(g @ w["out2.weight"].T + w["out2.bias"]), keys[1])


def _layer(w: dict[str, Any], u: Any) -> Any:
    """One sequence (L, h) -> (L, h)."""
    import jax

    pole = w["seq.Lambda_re"] + 1j * w["seq.Lambda_im"]
    lam = jax.numpy.exp(pole * jax.numpy.exp(w["seq.log_step"][:, 0]))
    b, c1, c2 = (w[f"seq.{name}"][..., 0] + 1j * w[f"seq.{name}"][..., 1] for name in ("B", "C1", "C2"))
    elements = lam * jax.numpy.ones((len(u), len(lam)), lam.dtype)
    bu = jax.vmap(lambda step: (((lam - 1) / pole)[:, None] * b) @ step)(u)

    def joined(before: Any, after: Any) -> Any:
        return after[0] * before[0], after[0] * before[1] + after[1]

    both = [jax.lax.associative_scan(joined, (elements, bu), reverse=back)[1] for back in (False, True)]
    c, x = jax.numpy.concatenate([c1, c2], -1), jax.numpy.concatenate(both, -1)
    return jax.vmap(lambda state: 2 * (c @ state).real)(x) + u * w["seq.D"]
