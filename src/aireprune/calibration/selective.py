"""The calibrated readout of a Mamba layer.

With x_t the input of the selective part, s_t = silu(z_t) its gate, W = out_proj and h_t[d, j] the states,

    y_t = W s_t * ( sum_j (W_C[j] . x_t) h_t[:, j] + D x_t )

is linear in W_C, the rows of x_proj that read the states, and in D, together, and then in W. All are fitted to the
output of the full layer, first (W_C, D), then W. In the first problem, state j and entry e of its row have the feature
x_t[e] Z_t[:, j] with Z_t[:, j] = W (s_t * h_t[:, j]), so the Gram matrix is made of the blocks X' diag(Z_j . Z_k) X.

For wide layers, changes of W_C are restricted to the span of the strongest directions of x_t. Where C is normalised
(FalconMamba, Jamba), y is not linear in W_C, but in the weight of that norm if it has one: state j then has the one
feature C_t[j] Z_t[:, j].
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from aireprune.calibration.mixers import Mixer, Signals
from aireprune.calibration.moments import TOKENS, Moments, best_change
from aireprune.calibration.team import total

UNKNOWNS = 4096  # about so many in one problem
AT_LEAST = 512  # of which are for the states, however wide the layer
OVER, ITERATIONS = 8, 12

Stream = Iterable[tuple[Signals, Tensor, bool]]  # what happens inside, what should be put out (b, L, d_model), held out


class GateMoments:
    """Moments of the problem for the readout of the states and D. Unknowns: state 0's r numbers, state 1's, ..., then D.

    basis (D, r): directions in which rows of W_C may change; None where C is normalised.
    """

    def __init__(self, mixer: Mixer, basis: Tensor | None, products: Tensor | None = None):
        """products: W'W, if it is known."""
        self.mixer, self.basis = mixer, basis
        w = mixer.out_weight.double()
        self.products = w.T @ w if products is None else products
        self.r = 1 if basis is None else basis.shape[1]
        self.sums = Moments.zeros(mixer.states * self.r + mixer.channels, 1)

    def add(self, inside: Signals, residual: Tensor) -> None:
        """residual (b, L, d_model): what the layer's output lacks."""
        n, r = self.mixer.states, self.r
        w = self.mixer.out_weight.double()
        states = [self.mixer.state(inside, j).flatten(0, 1) for j in range(n)]
        x_all, s_all, c_all, r_all = (part.flatten(0, 1) for part in (inside.x, inside.s, inside.c, residual))
        gram, side = self.sums.gram, self.sums.side[:, 0]
        for start in range(0, len(x_all), TOKENS):
            rows = slice(start, start + TOKENS)
            x, s, c, lack = (part[rows].double() for part in (x_all, s_all, c_all, r_all))
            along = [c[:, j : j + 1] for j in range(n)] if self.basis is None else [x @ self.basis] * n
            z = [(s * h[rows].double()) @ w.T for h in states]
            gated = s * x
            for j in range(n):
                at_j = slice(j * r, (j + 1) * r)
                for k in range(j + 1):
                    block = along[j].T @ (along[k] * (z[j] * z[k]).sum(1, keepdim=True))
                    gram[at_j, k * r : (k + 1) * r] += block
                    if k < j:
                        gram[k * r : (k + 1) * r, at_j] += block.T
                cross = along[j].T @ ((z[j] @ w) * gated)
                gram[at_j, n * r :] += cross
                gram[n * r :, at_j] += cross.T
                side[at_j] += along[j].T @ (z[j] * lack).sum(1)
            gram[n * r :, n * r :] += self.products * (gated.T @ gated)
            side[n * r :] += ((lack @ w) * gated).sum(0)
            self.sums.power += (lack * lack).sum()

    def weights(self) -> Tensor:
        """What the features of the states are multiplied with at present, (N, r)."""
        if self.basis is None:
            return torch.ones(self.mixer.states, 1, dtype=torch.float64)
        return self.mixer.c_rows.double() @ self.basis


def fit_gates(mixer: Mixer, stream: Stream, basis: Tensor | None) -> None:
    """W_C and D, or the weight of the norm of C and D."""
    first = GateMoments(mixer, basis)
    parts = [first, GateMoments(mixer, basis, first.products)]
    for inside, target, held in stream:
        parts[held].add(inside, target - mixer.output(inside))
    for part in parts:
        part.sums.gather()
    fit, judge = parts[0].sums, parts[1].sums
    split = mixer.states * parts[0].r
    if basis is None and mixer.c_scale is None:  # nothing of the states can change
        fit, judge = _last(fit, split), _last(judge, split)
        split = 0
    change = best_change(fit, judge if judge.power > 0 else None)[:, 0]
    if basis is not None:
        rows = change[:split].reshape(mixer.states, -1) @ basis.T
        mixer.c_rows.add_(rows.to(mixer.c_rows.dtype))
    elif mixer.c_scale is not None:
        mixer.c_scale.mul_(1 + change[:split].to(mixer.c_scale.dtype))
    mixer.d.add_(change[split:].to(mixer.d.dtype))


def _last(sums: Moments, split: int) -> Moments:
    return Moments(sums.gram[split:, split:], sums.side[split:], sums.power)


def free_directions(mixer: Mixer, insides: Iterable[Signals], unknowns: int = UNKNOWNS) -> Tensor | None:
    """An orthonormal basis (D, r) of the strongest directions of x_t, all of them if the problem stays small; None where C
    is normalised."""
    if mixer.c_norm is not None:
        return None
    channels = mixer.channels
    r = min(channels, max(1, max(unknowns - channels, AT_LEAST) // max(mixer.states, 1)))
    if r == channels:
        return torch.eye(channels, dtype=torch.float64)
    covariance = torch.zeros(channels, channels, dtype=torch.float64)
    for inside in insides:
        x = inside.x.flatten(0, 1)
        covariance += (x.T @ x).double()
    total(covariance)
    return _leading(covariance, r)


def _leading(covariance: Tensor, r: int) -> Tensor:
    """The r leading eigenvectors; few of many by subspace iteration, which is enough to span what is strong."""
    if 8 * r > len(covariance):
        return torch.linalg.eigh(covariance)[1][:, -r:]
    basis = torch.randn(len(covariance), r + OVER, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(covariance @ basis)[0]
    turn = torch.linalg.eigh(basis.T @ covariance @ basis)[1]
    return (basis @ turn)[:, -r:]
