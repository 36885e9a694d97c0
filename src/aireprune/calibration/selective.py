"""The calibrated readout of a Mamba layer.

With x_t the input of the selective part, s_t = silu(z_t) its gate, W = out_proj and h_t[d, j] the states,

    y_t = W s_t * ( sum_j (W_C[j] . x_t) h_t[:, j] + D x_t )

is linear in W_C, the rows of x_proj that read the states, and in D, together, and then in W. All are fitted to the
output of the full layer, first (W_C, D), then W. In the first problem, state j and entry e of its row have the feature
x_t[e] Z_t[:, j] with Z_t[:, j] = W (s_t * h_t[:, j]), so the Gram matrix is made of the blocks X' diag(Z_j . Z_k) X.

For wide layers, changes of W_C are restricted to the span of the strongest directions of x_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.calibration.linear import fit_linear
from aireprune.calibration.moments import TOKENS, Moments, best_change
from aireprune.calibration.stack import MambaStack
from aireprune.calibration.walk import Walk, read_and_target
from aireprune.kernels.conv import causal_conv
from aireprune.kernels.selective import selective_scan
from aireprune.models.mamba import MambaLayer

UNKNOWNS = 4096  # at most so many in one problem
ROUNDS = 1


@dataclass(frozen=True)
class Signals:
    """What happens inside a layer: x and the gate s (b, L, D), the raw step (b, L, D), B and C (b, L, N)."""

    x: Tensor
    s: Tensor
    dt: Tensor
    b: Tensor
    c: Tensor


def signals(layer: MambaLayer, u: Tensor) -> Signals:
    x, z = layer.in_proj(u).chunk(2, dim=-1)
    x = causal_conv(x, layer.conv1d.weight, layer.conv1d.bias)
    dt, b, c = layer.x_proj(x).split([layer.rank, layer.states, layer.states], dim=-1)
    return Signals(x, F.silu(z), F.linear(dt, layer.dt_proj.weight), b, c)


def state(layer: MambaLayer, inside: Signals, j: int) -> Tensor:
    """h_t[:, j] of all channels, (b, L, D)."""
    pole = -torch.exp(layer.A_log[:, j : j + 1])
    one = torch.ones_like(inside.b[..., :1])
    return selective_scan(inside.x, inside.dt, pole, inside.b[..., j : j + 1], one, None, layer.dt_proj.bias)[0]


class GateMoments:
    """Moments of the problem for W_C and D, with W_C restricted to the columns of `basis` (D, r).

    Unknowns: state 0's r numbers, state 1's, ..., then D.
    """

    def __init__(self, layer: MambaLayer, basis: Tensor):
        self.layer, self.basis = layer, basis
        self.sums = Moments.zeros(layer.states * basis.shape[1] + len(layer.D), 1)

    def add(self, inside: Signals, residual: Tensor) -> None:
        """residual (b, L, d_model): what the layer's output lacks."""
        n, r = self.layer.states, self.basis.shape[1]
        w = self.layer.out_proj.weight.double()
        states = [state(self.layer, inside, j).flatten(0, 1) for j in range(n)]
        x_all, s_all, r_all = (part.flatten(0, 1) for part in (inside.x, inside.s, residual))
        gram, side = self.sums.gram, self.sums.side[:, 0]
        for start in range(0, len(x_all), TOKENS):
            rows = slice(start, start + TOKENS)
            x, s, lack = (part[rows].double() for part in (x_all, s_all, r_all))
            along = x @ self.basis
            z = [(s * h[rows].double()) @ w.T for h in states]
            gated = s * x
            for j in range(n):
                at_j = slice(j * r, (j + 1) * r)
                for k in range(j + 1):
                    block = along.T @ (along * (z[j] * z[k]).sum(1, keepdim=True))
                    gram[at_j, k * r : (k + 1) * r] += block
                    if k < j:
                        gram[k * r : (k + 1) * r, at_j] += block
                cross = along.T @ ((z[j] @ w) * gated)
                gram[at_j, n * r :] += cross
                gram[n * r :, at_j] += cross.T
                side[at_j] += along.T @ (z[j] * lack).sum(1)
            gram[n * r :, n * r :] += (w.T @ w) * (gated.T @ gated)
            side[n * r :] += ((lack @ w) * gated).sum(0)
            self.sums.power += (lack * lack).sum()


def fit_mamba(walk: Walk, student: MambaStack, rounds: int = ROUNDS) -> None:
    layer = student.layer(walk.at)
    for _ in range(rounds):
        if layer.states:
            fit_gate(walk, layer)
        fit_projection(walk, layer)


def fit_gate(walk: Walk, layer: MambaLayer) -> None:
    """W_C and D."""
    basis = strongest_directions(walk, layer)
    parts = [GateMoments(layer, basis) for _ in range(2)]
    for u, target, held in read_and_target(walk):
        parts[held].add(signals(layer, u), target - layer(u))
    fit, held_part = parts[0].sums, parts[1].sums
    change = best_change(fit, held_part if held_part.power > 0 else None)[:, 0]
    split = layer.states * basis.shape[1]
    rows = change[:split].reshape(layer.states, -1) @ basis.T
    layer.x_proj.weight[layer.rank + layer.states :] += rows.to(layer.x_proj.weight.dtype)
    layer.D.add_(change[split:])


def fit_projection(walk: Walk, layer: MambaLayer) -> None:
    """W, and its bias where it has one."""
    stream = ((layer.scan_output(u), target, held) for u, target, held in read_and_target(walk))
    fit_linear(layer.out_proj.weight, layer.out_proj.bias, stream)


def strongest_directions(walk: Walk, layer: MambaLayer) -> Tensor:
    """An orthonormal basis (D, r) of the strongest directions of x_t; all of them if the problem stays small."""
    channels = len(layer.D)
    r = min(channels, max(1, (UNKNOWNS - channels) // max(layer.states, 1)))
    if r == channels:
        return torch.eye(channels, dtype=torch.float64)
    covariance = torch.zeros(channels, channels, dtype=torch.float64)
    for u, _, _ in read_and_target(walk):
        x = signals(layer, u).x.flatten(0, 1)
        covariance += (x.T @ x).double()
    return torch.linalg.eigh(covariance)[1][:, -r:]
