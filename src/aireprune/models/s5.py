"""S5 in PyTorch, parameter-compatible with the official JAX/Flax implementation.

Shapes: h features, P stored modes. Complex parameters are stored as real tensors whose last axis is (re, im), under the
official names:

    Lambda_re, Lambda_im (P,)   log_step (P, 1)   B (P, h, 2)   D (h,)
    C (h, P, 2), or C1 and C2 when bidirectional, or C (h, 2P, 2) when bidirectional with C_init complex_normal

Block and model are those of `aireprune.models.diagonal`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.families.s5 import CLIP_EIGS_AT
from aireprune.models.diagonal import BatchNorm, DiagonalBlock, DiagonalLayer, DiagonalModel, Kinds, initialize_dense
from aireprune.models.discretize import discretize
from aireprune.models.s5_config import S5Config


class S5SSM(DiagonalLayer):
    """u (b, L, h) -> y (b, L, h), the state space layer alone."""

    stock: ClassVar[Kinds] = {}

    def __init__(self, config: S5Config, modes: int):
        super().__init__()
        self.conj_sym, self.bidirectional = config.conj_sym, config.bidirectional
        self.readout_scale = 2.0 if config.conj_sym else 1.0
        self.discretization, self.step_rescale = config.discretization, config.step_rescale
        self.clip_at, self.modes = CLIP_EIGS_AT if config.clip_eigs else math.inf, modes
        h, d = config.h, 2 if config.bidirectional else 1
        self.Lambda_re = nn.Parameter(torch.empty(modes))
        self.Lambda_im = nn.Parameter(torch.empty(modes))
        self.log_step = nn.Parameter(torch.empty(modes, 1))
        self.B = nn.Parameter(torch.empty(modes, h, 2))
        if d == 2 and not config.one_c_matrix:
            self.C1 = nn.Parameter(torch.empty(h, modes, 2))
            self.C2 = nn.Parameter(torch.empty(h, modes, 2))
        else:
            self.C = nn.Parameter(torch.empty(h, d * modes, 2))
        self.D = nn.Parameter(torch.empty(h))

    def extra_repr(self) -> str:
        return f"states={self.modes}"

    def readouts(self) -> list[Tensor]:
        if hasattr(self, "C1"):
            return [self.C1, self.C2]
        return list(self.C.split(self.modes, dim=1)) if self.modes else [self.C]

    def discrete(self) -> tuple[Tensor, Tensor]:
        re = self.Lambda_re.clamp(max=self.clip_at)
        step = self.step_rescale * torch.exp(self.log_step[:, 0])
        lam, factor = discretize(torch.complex(re, self.Lambda_im), step, self.discretization)
        return lam, factor[:, None] * torch.view_as_complex(self.B)

    def operator_arguments(self) -> dict[str, Any]:
        return {
            "poles": (self.Lambda_re, self.Lambda_im, self.log_step[:, 0]),
            "step_rescale": self.step_rescale,
            "clip_at": self.clip_at,
            "method": self.discretization,
            "b": self.B,
            "c": self.readouts(),
            "c_scale": self.readout_scale,
            "d": self.D,
        }


class S5Block(DiagonalBlock):
    """Norm, S5 layer, activation and gate, residual: z (b, L, h) -> (b, L, h)."""

    stock: ClassVar[Kinds] = {"seq": (S5SSM,), **DiagonalBlock.parts}
    seq: S5SSM

    def __init__(self, config: S5Config, modes: int):
        super().__init__(config, S5SSM(config, modes))


class S5Model(DiagonalModel):
    """Encoder, S5 blocks, pooling, head. model(x, lengths=None) -> logits."""

    family = "s5"
    stock: ClassVar[Kinds] = {"encoder": (nn.Linear,), "layers": (S5Block,)}
    config: S5Config

    def __init__(self, config: S5Config):
        super().__init__(config, partial(S5Block, config))


def hippo_normal(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (n,) and eigenvectors (n, n) of the normal part of HiPPO-LegS, by ascending imaginary part."""
    q = np.sqrt(2 * np.arange(n) + 1.0)
    hippo = -(np.tril(np.outer(q, q)) - np.diag(np.arange(n)))
    p = np.sqrt(np.arange(n) + 0.5)
    normal = hippo + np.outer(p, p)
    imag, vectors = np.linalg.eigh(normal * -1j)
    return np.mean(np.diagonal(normal)) + 1j * imag, vectors


def initialize(model: S5Model, seed: int = 0) -> S5Model:
    """The official initialisation: HiPPO-N poles in `blocks` copies, B and C drawn in the eigenbasis.

    A layer whose modes (`states`) cannot be divided into so many blocks is one block.
    """
    config, rng = model.config, np.random.default_rng(seed)

    def normal(*shape: int, std: float) -> np.ndarray:
        return rng.standard_normal(shape) * std

    def readout(columns: int, v: np.ndarray) -> Tensor:
        if config.C_init == "complex_normal":
            return torch.tensor(normal(config.h, columns, 2, std=math.sqrt(0.5)), dtype=torch.float32)
        c = normal(config.h, len(v), 2, std=1 / math.sqrt(len(v)))
        return _parts((c[..., 0] + 1j * c[..., 1]) @ v)

    torch.manual_seed(seed)
    with torch.no_grad():
        initialize_dense(model)
        for module in model.modules():
            if isinstance(module, S5SSM):
                lam, v = _eigenbasis(config, len(module.Lambda_re))
                module.Lambda_re.copy_(torch.tensor(lam.real))
                module.Lambda_im.copy_(torch.tensor(lam.imag))
                module.B.copy_(_parts(v.conj().T @ normal(len(v), config.h, std=1 / math.sqrt(max(len(v), 1)))))
                for name in ("C", "C1", "C2"):
                    if hasattr(module, name) and len(v):
                        getattr(module, name).copy_(readout(getattr(module, name).shape[1], v))
                module.D.copy_(torch.tensor(normal(config.h, std=1.0)))
                steps = rng.uniform(math.log(config.dt_min), math.log(config.dt_max), (len(lam), 1))
                module.log_step.copy_(torch.tensor(steps))
    return model


def _eigenbasis(config: S5Config, modes: int) -> tuple[np.ndarray, np.ndarray]:
    """Poles (P,) of a layer with P stored modes and the eigenvectors (n, P) that belong to them, block by block."""
    per_mode = 2 if config.conj_sym else 1
    blocks = config.blocks if modes % config.blocks == 0 else 1
    stored = modes // blocks
    lam, vectors = hippo_normal(per_mode * stored)
    return np.tile(lam[:stored], blocks), np.kron(np.eye(blocks), vectors[:, :stored])  # one of each pair


def _parts(z: np.ndarray) -> Tensor:
    return torch.tensor(np.stack([z.real, z.imag], -1), dtype=torch.float32)


__all__ = ["S5SSM", "BatchNorm", "S5Block", "S5Config", "S5Model", "hippo_normal", "initialize"]
