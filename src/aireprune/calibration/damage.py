"""[measured-energy] and [damage]: scores of a selective layer's states, measured on data.

[measured-energy] (method aire-calibrated) is the energy that a state's own part of the layer's output has under real
gates, w_j' G_jj w_j below. It ignores that states can stand in for each other. [damage] (damage-calibrated) does not: what
the removal of states does to a layer's output is measured after the remaining ones make up for it as far as the
calibrated readout can (`aireprune.calibration.selective`). With G the Gram matrix of that problem's features, T the
removed states, K everything else (kept states and D) and w the present weights, the exact squared error is

    loss(T) = w_T' ( G_TT - G_TK G_KK^-1 G_KT ) w_T

States are taken out one by one, each time the one that leaves the smallest loss; a state scores the loss at which it
went.

Mamba-2 layers have the same two scores from the moments of their gates and states (`aireprune.calibration.head_moments`):
M_jj P_jj, and the losses of `aireprune.method.elimination`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aireprune.calibration.calls import Call
from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.inputs import Inputs
from aireprune.calibration.lockstep import Lockstep
from aireprune.calibration.mixers import Mixer
from aireprune.calibration.moments import inverse_root
from aireprune.calibration.running import running
from aireprune.calibration.selective import GateMoments, free_directions
from aireprune.calibration.sites import Site
from aireprune.calibration.subject import Subject
from aireprune.calibration.team import ALONE, working_in
from aireprune.errors import AireError
from aireprune.method import elimination

UNKNOWNS = 512  # features per layer; W_C is seen in the strongest directions of x_t beyond
SEQUENCES = 16
RIDGE = 1e-4

Weights = Callable[[str], AbstractContextManager[Any]]


@torch.no_grad()
def measured_scores(
    full: Subject, inputs: Inputs, criterion: str, weights: Weights = lambda name: nullcontext()
) -> list[np.ndarray | None]:
    """Scores (N,) of the states of every layer; at most SEQUENCES of the inputs are used.

    weights: makes sure, while it lasts, that the weights of a module are in memory.
    """
    _check_sites(full)
    rule = elimination_losses if criterion == "damage" else output_energies
    gates = [site for site in full.sites if site.layer.family == "mamba"]
    with running(full.module), working_in(ALONE):  # too few sequences to share
        found = {name: rule(gram, rows) for name, gram, rows in _readout_problems(full, gates, inputs, weights)}
    if len(gates) < len(full.sites):
        found |= _head_scores(full, inputs, criterion)
    return [found.get(layer.name) for layer in full.layers]


def _head_scores(full: Subject, inputs: Inputs, criterion: str) -> dict[str, np.ndarray]:
    """Scores of the states of Mamba-2 layers, on all inputs."""
    measured = zip(full.layers, measured_covariances(full, inputs), strict=True)
    rule = elimination.elimination_losses if criterion == "damage" else elimination.energies
    return {layer.name: rule(moments).ravel() for layer, moments in measured if moments is not None}


def _check_sites(full: Subject) -> None:
    for site in full.sites:
        if not site.gates:
            raise AireError(
                f"Methods that score on data are for selective layers (Mamba and Mamba-2), and {site.layer.name} is not "
                "one whose inside is known. For S5, S4D and LRU, use reduce='balanced' with calibrate=, which measures "
                "more."
            )


def _readout_problems(
    full: Subject, gates: Sequence[Site], inputs: Inputs, weights: Weights
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Of every layer: its name, the Gram matrix of its readout problem, and the present weights of its states (N, r)."""
    sites = {site.module: site for site in gates}
    if not sites:
        return
    modules = [full.module.get_submodule(name) for name in sites]
    with Lockstep(full.module, modules, list(_some(inputs))) as passes:
        while (stop := passes.advance()) is not None:
            site = next(site for name, site in sites.items() if full.module.get_submodule(name) is stop.module)
            mixer = Mixer(stop.module)
            with weights(site.module):
                insides = [mixer.signals(call.first, call.named(stop.module, "attention_mask")) for call in stop.calls]
                basis = free_directions(mixer, insides, UNKNOWNS + mixer.channels)
                moments = GateMoments(mixer, basis)
                for call, inside in zip(stop.calls, insides, strict=True):
                    moments.add(inside, torch.zeros_like(call.first))
                yield site.layer.name, moments.sums.gram, moments.weights()


def _some(inputs: Inputs) -> Iterator[Call]:
    """The first SEQUENCES sequences."""
    left = SEQUENCES
    for number in range(inputs.batches):
        if left <= 0:
            return
        call = inputs[number]
        yield call.rows(slice(left)) if number else call
        left -= len(call.first)


def output_energies(gram: Tensor, weights: Tensor) -> np.ndarray:
    """w_j' G_jj w_j of each of n states; gram over n r features of states (and others behind them)."""
    n, r = weights.shape
    blocks = torch.stack([gram[j * r : (j + 1) * r, j * r : (j + 1) * r] for j in range(n)])
    return torch.einsum("nr,nrs,ns->n", weights, blocks, weights).numpy()


def elimination_losses(gram: Tensor, weights: Tensor, ridge: float = RIDGE) -> np.ndarray:
    """The loss at which each of n states is taken out; gram over n r features of states and others that always stay."""
    n, r = weights.shape
    scale = inverse_root(gram.diagonal())
    scaled = gram * scale[:, None] * scale
    w = (weights.flatten() / scale[: n * r].clamp(min=1e-30)) * (scale[: n * r] > 0)
    always = list(range(n * r, len(gram)))
    kept, losses = list(range(n)), np.zeros(n)

    def loss(gone: list[int]) -> float:
        stay = [k * r + e for k in range(n) if k not in gone for e in range(r)] + always
        out = [k * r + e for k in gone for e in range(r)]
        own = scaled[out][:, out] @ w[out]
        if not stay:
            return float(w[out] @ own)
        side = scaled[stay][:, out] @ w[out]
        inner = scaled[stay][:, stay] + ridge * torch.eye(len(stay), dtype=scaled.dtype)
        return float(w[out] @ own - side @ torch.linalg.solve(inner, side))

    gone: list[int] = []
    while kept:
        found = {j: loss([*gone, j]) for j in kept}
        worst = min(kept, key=lambda j: (found[j], j))
        losses[worst] = max(found[worst], losses.max())
        gone.append(worst)
        kept.remove(worst)
    return losses
