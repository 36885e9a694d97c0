"""Hankel singular values kept small while training (Schwerdtner, Berman and Peherstorfer, NeurIPS 2025).

Their sum, over the layers and directions of a model, is added to the loss: they then fall off faster, and balanced
truncation takes away more. For S5 and LRU, in the real coordinates (Re x, Im x).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.models.diagonal import DiagonalLayer

NEGLIGIBLE = 1e-7  # of the largest singular value; smaller ones do not pull


def check_regularised(model: nn.Module) -> None:
    """Raise unless there is something to regularise."""
    if not any(isinstance(module, DiagonalLayer) for module in model.modules()):
        raise AireError(
            f"Hankel singular values are regularised in S5 and LRU layers only (hankel=); a {type(model).__name__} "
            f"has none."
        )


def hankel_sum(model: nn.Module) -> Tensor:
    """The sum of all Hankel singular values; its gradient reaches poles, steps, B and C."""
    layers = [module for module in model.modules() if isinstance(module, DiagonalLayer) and module.modes]
    total = [sum_of_values(p, q) for layer in layers for p, q in _gramians(layer)]
    return torch.stack(total).sum() if total else torch.zeros(())


def _gramians(layer: DiagonalLayer) -> list[tuple[Tensor, Tensor]]:
    """Controllability and observability Gramians (2P, 2P) of every direction."""
    lam, b = (part.to(torch.complex128) for part in layer.discrete())
    reached = gramian(lam, b)
    seen = (layer.readout_scale * torch.view_as_complex(c.double().contiguous()).conj().T for c in layer.readouts())
    return [(reached, gramian(lam.conj(), c)) for c in seen]


def gramian(lam: Tensor, b: Tensor) -> Tensor:
    """The sum over k of v_k v_k', v_k = (Re, Im) of lam^k b: lam (P,), b (P, inputs) -> (2P, 2P)."""
    p = (b @ b.conj().T) / (1 - lam[:, None] * lam.conj()[None])
    r = (b @ b.T) / (1 - lam[:, None] * lam[None])
    cross = (r - p).imag / 2  # of Re with Im
    rows = torch.cat([(p + r).real / 2, cross], 1), torch.cat([cross.T, (p - r).real / 2], 1)
    return torch.cat(rows)


def sum_of_values(p: Tensor, q: Tensor) -> Tensor:
    """tr (PQ)^1/2, without differentiating a decomposition.

    With P = LL', Q = MM' and M'L = U S V', its derivatives are M U S^-1 U' M' / 2 in P and L V S^-1 V' L' / 2 in Q.
    """
    with torch.no_grad():
        left, right = _factor(p), _factor(q)
        u, s, vh = torch.linalg.svd(right.T @ left)
        inverse = torch.where(s > NEGLIGIBLE * s.max(), 1 / s, 0.0)
        a, b = right @ u, left @ vh.T
        in_p, in_q = (a * inverse) @ a.T / 2, (b * inverse) @ b.T / 2
    return (in_p * p).sum() + (in_q * q).sum()


def _factor(gram: Tensor) -> Tensor:
    """L with LL' = gram."""
    values, vectors = torch.linalg.eigh((gram + gram.T) / 2)
    return vectors * values.clamp(min=0).sqrt()
