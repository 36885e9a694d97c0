"""Out of JAX and back: train a small S5 in Flax, prune its train state, and go on training with fewer states.

    pip install aireprune flax optax
    python examples/jax_round_trip.py --ratio 0.5

JAX is needed for the training only: `aireprune` reads and writes the file without it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
from flax.training.train_state import TrainState

import aireprune

FEATURES, CLASSES, LENGTH = 8, 4, 32
CONFIG = {"conj_sym": True, "discretization": "zoh", "clip_eigs": True}  # what the arrays of an S5 do not show


class S5(nn.Module):
    """u (L, h) -> y (L, h) with `states` pairs of complex states, in the parameters of the official code."""

    states: int

    @nn.compact
    def __call__(self, u):
        n, h, normal = self.states, u.shape[-1], nn.initializers.normal
        decay = self.param("Lambda_re", lambda key: -0.1 - jax.random.uniform(key, (n,)))
        lam = jnp.minimum(decay, -1e-4) + 1j * self.param("Lambda_im", lambda key: jnp.pi * (1.0 + jnp.arange(n)))
        step = jnp.exp(self.param("log_step", lambda key: jax.random.uniform(key, (n, 1), minval=-5.0, maxval=-1.0)))
        b, c = self.param("B", normal(h**-0.5), (n, h, 2)), self.param("C", normal(n**-0.5), (h, n, 2))
        d = self.param("D", normal(1.0), (h,))
        poles = jnp.exp(lam * step[:, 0])
        driven = u @ (((poles - 1) / lam)[:, None] * (b[..., 0] + 1j * b[..., 1])).T
        _, x = jax.lax.associative_scan(
            lambda first, then: (first[0] * then[0], then[0] * first[1] + then[1]),
            (jnp.broadcast_to(poles, driven.shape), driven),
        )
        return 2 * (x @ (c[..., 0] + 1j * c[..., 1]).T).real + d * u


class Classifier(nn.Module):
    """One number of states per layer, instead of one `ssm_size` for all."""

    sizes: tuple[int, ...]

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(FEATURES, name="encoder")(x)
        for number, size in enumerate(self.sizes):
            x = x + nn.gelu(S5(size, name=f"layers_{number}")(nn.LayerNorm(name=f"norm_{number}")(x)))
        return nn.Dense(CLASSES, name="decoder")(x.mean(0))


def batch(seed: int, count: int = 32):
    """Noisy oscillations; the class is how fast they are."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    phase = np.outer(0.2 * (1 + labels), np.arange(LENGTH)) + rng.uniform(0, 6, (count, 1))
    return (np.sin(phase) + rng.normal(0, 0.5, phase.shape))[..., None].astype(np.float32), labels


def make_state(sizes, params=None, steps: int = 1000) -> TrainState:
    """A train state; without parameters, with new ones."""
    model = Classifier(tuple(sizes))
    if params is None:
        params = model.init(jax.random.key(0), jnp.zeros((LENGTH, 1)))["params"]
    optimiser = optax.adamw(optax.cosine_decay_schedule(3e-3, steps))
    return TrainState.create(apply_fn=model.apply, params=params, tx=optimiser)


@jax.jit
def answers(state: TrainState, params, x):
    return jax.vmap(lambda one: state.apply_fn({"params": params}, one))(x)


@jax.jit
def train_step(state: TrainState, x, labels):
    def loss(params):
        return optax.softmax_cross_entropy_with_integer_labels(answers(state, params, x), labels).mean()

    value, gradient = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=gradient), value


def trained(state: TrainState, steps: int, seed: int = 0) -> TrainState:
    for step in range(steps):
        state, _ = train_step(state, *batch(seed + step))
    return state


def accuracy(state: TrainState) -> float:
    x, labels = batch(10**6, 500)
    return float((answers(state, state.params, x).argmax(-1) == labels).mean())


def cut(moments, new, kept: dict[str, tuple[int, ...]], path: tuple[str, ...] = ()):
    """An optimiser's state (as nested dicts) for the states that stay; new: one with the smaller shapes."""
    if isinstance(new, dict):
        return {key: cut(moments[key], value, kept, (*path, key)) for key, value in new.items()}
    if np.shape(moments) == np.shape(new):
        return moments
    states = next(states for name, states in kept.items() if f".{name}." in f".{'.'.join(path)}.")
    axis = next(axis for axis, size in enumerate(np.shape(moments)) if size != np.shape(new)[axis])
    return np.take(moments, states, axis)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratio", type=float, default=0.5, help="share of states to remove")
    parser.add_argument("--steps", type=int, default=100, help="of training, before and after")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())

    state = trained(make_state([16, 16]), arguments.steps)
    (folder / "full.msgpack").write_bytes(serialization.to_bytes(state))

    plan = aireprune.prune_file(
        folder / "full.msgpack", folder / "small.msgpack", ratio=arguments.ratio, layout="adaptive", config=CONFIG
    )
    tree = serialization.msgpack_restore((folder / "small.msgpack").read_bytes())
    sizes = [len(layer.kept) for layer in plan.layers]
    small = make_state(sizes, tree["params"])
    again = trained(small, arguments.steps, seed=5000)
    found = {"states": sizes, "full": accuracy(state), "pruned": accuracy(small), "trained on": accuracy(again)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
