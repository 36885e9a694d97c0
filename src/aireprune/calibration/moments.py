"""Least squares from second moments: features are seen batch by batch and never kept.

For features X (t, f) and the residual R (t, o) that the present weights leave, the change W of the weights minimises

    |R - X W|^2 + ridge |S W|^2 ,    S = diag(|X_1|, ..., |X_f|)

that is, the Gram matrix is scaled to unit diagonal and the ridge pulls towards the present weights. The loss of any
other W follows from the same moments, which is how a held-out part of the data chooses the ridge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aireprune.calibration.team import total

RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
LARGE = 1024  # features, above which fewer ridges are tried
FEW_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
FALLBACK = 1e-3  # where there is nothing to hold out
TINY = 1e-30
TOKENS = 2**13  # rows converted to double precision at a time


@dataclass
class Moments:
    """X'X (*batch, f, f), X'R (*batch, f, o) and |R|^2 (*batch,) of independent problems, in double precision."""

    gram: Tensor
    side: Tensor
    power: Tensor

    @classmethod
    def zeros(cls, features: int, outputs: int, batch: tuple[int, ...] = ()) -> Moments:
        def make(*shape: int) -> Tensor:
            return torch.zeros((*batch, *shape), dtype=torch.float64)

        return cls(make(features, features), make(features, outputs), make())

    def add(self, features: Tensor, residual: Tensor) -> None:
        """features (*batch, t, f), residual (*batch, t, o)."""
        for x, r in zip(features.split(TOKENS, -2), residual.split(TOKENS, -2), strict=True):
            x, r = x.double(), r.double()
            self.gram += x.mT @ x
            self.side += x.mT @ r
            self.power += (r * r).sum((-2, -1))

    def gather(self) -> None:
        """Add what other processes of the team have seen, in place."""
        total(*vars(self).values())

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.gram + other.gram, self.side + other.side, self.power + other.power)

    def solve(self, ridge: float) -> Tensor:
        """The change of weights (*batch, f, o)."""
        inverse, scaled = self._scaled(ridge)
        return inverse[..., None] * _solved(scaled, inverse[..., None] * self.side)

    def no_change(self) -> Tensor:
        """Zeros (*batch, f, o)."""
        return torch.zeros_like(self.side)

    def __len__(self) -> int:
        """Features."""
        return int(self.gram.shape[-1])

    def _scaled(self, ridge: float) -> tuple[Tensor, Tensor]:
        """1/diag(S), and the scaled Gram matrix with its ridge; features that are 0 stay out."""
        inverse = inverse_root(self.gram.diagonal(dim1=-2, dim2=-1))
        scaled = self.gram * inverse[..., :, None] * inverse[..., None, :]
        scaled.diagonal(dim1=-2, dim2=-1).add_(torch.where(inverse > 0, torch.full_like(inverse, ridge), 1.0))
        return inverse, scaled

    def loss(self, change: Tensor) -> Tensor:
        """|R - X W|^2, (*batch,)."""
        kind = torch.float32 if len(self) > LARGE else self.gram.dtype
        seen = (self.gram.to(kind) @ change.to(kind)).to(change.dtype)
        return self.power + ((seen - 2 * self.side) * change).sum((-2, -1))


@dataclass
class MomentsWithSkip(Moments):
    """One problem whose output k has, beside the shared features, one of its own: v_k, the skip connection D v.

    The change is (f + 1, o), with the change of D in the last row. Eliminating the shared features leaves one unknown
    per output, so no Gram matrix per output is ever made.
    """

    cross: Tensor  # X'V (f, o)
    own: Tensor  # |v_k|^2 (o,)
    own_side: Tensor  # v_k . r_k (o,)

    @classmethod
    def empty(cls, features: int, outputs: int) -> MomentsWithSkip:
        base = Moments.zeros(features, outputs)
        zeros = torch.zeros(outputs, dtype=torch.float64)
        return cls(base.gram, base.side, base.power, torch.zeros_like(base.side), zeros, zeros.clone())

    def add_with_skip(self, features: Tensor, skip: Tensor, residual: Tensor) -> None:
        """features (t, f), skip and residual (t, o)."""
        self.add(features, residual)
        for x, v, r in zip(features.split(TOKENS), skip.split(TOKENS), residual.split(TOKENS), strict=True):
            self.cross += x.double().T @ v.double()
            self.own += (v.double() ** 2).sum(0)
            self.own_side += (v.double() * r.double()).sum(0)

    def __add__(self, other: Moments) -> MomentsWithSkip:
        assert isinstance(other, MomentsWithSkip)
        sums = Moments(self.gram, self.side, self.power) + other
        return MomentsWithSkip(
            sums.gram,
            sums.side,
            sums.power,
            self.cross + other.cross,
            self.own + other.own,
            self.own_side + other.own_side,
        )

    def solve(self, ridge: float) -> Tensor:
        inverse, scaled = self._scaled(ridge)
        skip = inverse_root(self.own)
        cross = inverse[:, None] * self.cross * skip
        both = _solved(scaled, torch.cat([inverse[:, None] * self.side, cross], 1))
        alone, through = both.chunk(2, dim=1)
        left = 1 + ridge - (cross * through).sum(0)
        d = (skip * self.own_side - (cross * alone).sum(0)) / left
        return torch.cat([inverse[:, None] * (alone - through * d), (skip * d)[None]])

    def no_change(self) -> Tensor:
        return torch.zeros_like(torch.cat([self.side, self.side[:1]]) if len(self) else self.own_side[None])

    def loss(self, change: Tensor) -> Tensor:
        w, d = change[:-1], change[-1]
        shared = ((self.gram @ w - 2 * self.side + 2 * self.cross * d) * w).sum()
        return self.power + shared + ((self.own * d - 2 * self.own_side) * d).sum()


def gram(x: Tensor) -> Tensor:
    """X'X over the second to last axis, in double precision; x (*batch, t, f)."""
    total: Tensor = sum(part.double().mT @ part.double() for part in x.split(TOKENS, -2))
    return total


def inverse_root(squares: Tensor) -> Tensor:
    """1/sqrt, and 0 for 0."""
    return torch.where(squares > TINY, 1 / squares.clamp(min=TINY).sqrt(), torch.zeros_like(squares))


def best_change(fit: Moments, held: Moments | None, ridges: Sequence[float] | None = None) -> Tensor:
    """The change solved from all data, with the ridge that does best on the held-out part, for each problem by itself.

    Where no ridge beats the present weights on the held-out part, the change is zero.
    """
    if held is None:
        return fit.solve(FALLBACK)
    tried = (RIDGES if len(fit) <= LARGE else FEW_RIDGES) if ridges is None else ridges
    best, chosen = held.power.clone(), torch.full(held.power.shape, -1)
    for number, ridge in enumerate(tried):
        loss = held.loss(fit.solve(ridge))
        chosen = torch.where(loss < best, number, chosen)
        best = torch.minimum(loss, best)
    change, both = fit.no_change(), fit + held
    for number in chosen.unique().tolist():
        if number >= 0:
            change = torch.where((chosen == number)[..., None, None], both.solve(tried[number]), change)
    return change


def _solved(matrix: Tensor, side: Tensor) -> Tensor:
    """matrix^-1 side for symmetric positive definite matrices; large ones in single precision, which a ridge allows."""
    kind = torch.float32 if matrix.shape[-1] > LARGE else matrix.dtype
    factor, failed = torch.linalg.cholesky_ex(matrix.to(kind))
    if failed.any():
        return torch.linalg.solve(matrix, side)
    return torch.cholesky_solve(side.to(kind), factor).to(side.dtype)
