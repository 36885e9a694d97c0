"""[measured-energy] and [damage]: scores of a selective layer's states, measured on data.

[measured-energy] (method aire-calibrated) is the energy that a state's own part of the layer's output has under real
gates, w_j' G_jj w_j below. It ignores that states can stand in for each other. [damage] (damage-calibrated) does not: what
the removal of states does to a layer's output is measured after the remaining ones make up for it as far as the
calibrated readout can (`aireprune.calibration.selective`). With G the Gram matrix of that problem's features, T the
removed states, K everything else (kept states and D) and w the present weights, the exact squared error is

    loss(T) = w_T' ( G_TT - G_TK G_KK^-1 G_KT ) w_T

States are taken out one by one, each time the one that leaves the smallest loss; a state scores the loss at which it
went.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.calibration.inputs import Inputs
from aireprune.calibration.moments import inverse_root
from aireprune.calibration.selective import GateMoments, signals
from aireprune.calibration.stack import MambaStack, open_stack
from aireprune.errors import AireError
from aireprune.models.evaluation import evaluation_mode

UNKNOWNS = 512  # features per layer; W_C is seen in the strongest directions of x_t beyond
SEQUENCES = 16
RIDGE = 1e-4


@torch.no_grad()
def measured_scores(model: nn.Module, inputs: Inputs, criterion: str) -> list[np.ndarray]:
    """Scores (N,) of the states of every layer; at most SEQUENCES of the inputs are used."""
    rule = elimination_losses if criterion == "damage" else output_energies
    stack = open_stack(model)
    if not isinstance(stack, MambaStack):
        raise AireError(
            "Methods that score on data are for selective layers (Mamba). For S5 and S4D, use reduce='balanced' with "
            "calibrate=, which measures more than energies."
        )
    with evaluation_mode(model):
        return [rule(gram, rows) for gram, rows in _readout_problems(stack, inputs)]


def _readout_problems(stack: MambaStack, inputs: Inputs) -> Iterator[tuple[Tensor, Tensor]]:
    """Of every layer: the Gram matrix of its readout problem, and the present weights of its states (N, r)."""
    batches = list(islice(inputs, max(1, SEQUENCES // inputs.batch)))
    zs = [stack.encode(x) for x in batches]
    for i in range(stack.depth):
        layer = stack.layer(i)
        reads = [stack.read(i, z) for z in zs]
        basis = _directions([signals(layer, u).x for u in reads], UNKNOWNS // max(layer.states, 1))
        moments = GateMoments(layer, basis)
        for u in reads:
            moments.add(signals(layer, u), torch.zeros_like(u))
        yield moments.sums.gram, layer.x_proj.weight[layer.rank + layer.states :].double() @ basis
        zs = [stack.join(i, z, stack.put_out(i, u)) for z, u in zip(zs, reads, strict=True)]


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


def _directions(xs: list[Tensor], limit: int) -> Tensor:
    """An orthonormal basis (D, r) of the strongest directions of x_t, r at most `limit`."""
    channels = xs[0].shape[-1]
    if channels <= limit:
        return torch.eye(channels, dtype=torch.float64)
    flat = [x.flatten(0, 1) for x in xs]
    covariance = torch.stack([(x.T @ x).double() for x in flat]).sum(0)
    return torch.linalg.eigh(covariance)[1][:, -max(limit, 1) :]
