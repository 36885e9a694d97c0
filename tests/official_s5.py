"""The official S5 classifier's structure as Flax modules: one state size for all layers, shapes checked by Flax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


class Layer(nn.Module):
    """A diagonal system with `modes` stored poles, zoh, one or two directions. (L, h) -> (L, h)"""

    modes: int
    directions: int

    @nn.compact
    def __call__(self, u: jax.Array) -> jax.Array:
        p, h = self.modes, u.shape[-1]
        zeros = nn.initializers.zeros

        def complex_param(name: str, *shape: int) -> jax.Array:
            parts = self.param(name, zeros, (*shape, 2))
            return parts[..., 0] + 1j * parts[..., 1]

        pole = self.param("Lambda_re", zeros, (p,)) + 1j * self.param("Lambda_im", zeros, (p,))
        decay = jnp.exp(pole * jnp.exp(self.param("log_step", zeros, (p, 1))[:, 0]))
        driven = u @ (((decay - 1) / pole)[:, None] * complex_param("B", p, h)).T
        names = ("C",) if self.directions == 1 else ("C1", "C2")
        y = sum(
            (_states(decay, driven, backwards) @ complex_param(name, h, p).T).real
            for backwards, name in enumerate(names)
        )
        return 2 * y + self.param("D", zeros, (h,)) * u


def _states(decay: jax.Array, driven: jax.Array, backwards: int) -> jax.Array:
    """x_t = decay x_(t-1) + driven_t, step by step. (L, P)"""

    def step(state: jax.Array, entry: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = decay * state + entry
        return state, state

    return jax.lax.scan(step, jnp.zeros_like(driven[0]), driven, reverse=bool(backwards))[1]


class Block(nn.Module):
    config: Mapping[str, Any]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """(batch, L, h) -> the same"""
        config, h = self.config, x.shape[-1]
        norm = nn.BatchNorm(use_running_average=True, name="norm") if config["batchnorm"] else nn.LayerNorm(name="norm")
        layer = nn.vmap(Layer, variable_axes={"params": None}, split_rngs={"params": False})
        z = layer(config["n"] // 2, 1 + config["bidirectional"], name="seq")(norm(x))
        active = nn.gelu(z)
        gate = nn.sigmoid(nn.Dense(h, name="out2")(active))
        return x + gate * (nn.Dense(h, name="out1")(active) if config["activation"] == "full_glu" else z)


class Stack(nn.Module):
    config: Mapping[str, Any]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Dense(self.config["h"], name="encoder")(x)
        for number in range(self.config["layers"]):
            x = Block(self.config, name=f"layers_{number}")(x)
        return x


class Classifier(nn.Module):
    """config: a golden configuration (prenorm, zoh, conjugate halves) with n of the file. (batch, L, d) -> log_probs"""

    config: Mapping[str, Any]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        z = Stack(self.config, name="encoder")(x)
        z = z[:, -1] if self.config["mode"] == "last" else z.mean(1)
        return nn.log_softmax(nn.Dense(self.config["d_output"], name="decoder")(z))


def log_probs(variables: Any, config: Mapping[str, Any], x: Any) -> Any:
    return Classifier(config).apply(variables, x)
