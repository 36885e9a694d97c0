"""S5 in PyTorch, parameter-compatible with the official JAX/Flax implementation.

Shapes: b batch, L time, h features, P stored modes, d directions (1 or 2). Complex parameters are stored as real
tensors whose last axis is (re, im), under the official names:

    Lambda_re, Lambda_im (P,)   log_step (P, 1)   B (P, h, 2)   D (h,)
    C (h, P, 2), or C1 and C2 when bidirectional, or C (h, 2P, 2) when bidirectional with C_init complex_normal

Departures from the official code: the state scan is a real operator over [Re | Im] (same numbers, one matrix product
on each side of it), and a layer may have any number of states, zero included.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.families.s5 import CLIP_EIGS_AT
from aireprune.kernels.s5_dispatch import fused_block, fused_features, fused_layer
from aireprune.kernels.scan import diagonal_scan
from aireprune.models.discretize import discretize
from aireprune.models.dropout import TimeDropout
from aireprune.models.heads import make_head, pooled
from aireprune.models.s5_config import S5Config

LAYER_NORM_EPS = 1e-6  # Flax's default, not torch's
Kinds = dict[str, tuple[type[nn.Module], ...]]  # of a module's parts by name, for `aireprune.kernels.s5_dispatch`


class S5SSM(nn.Module):
    """u (b, L, h) -> y (b, L, h), the state space layer alone."""

    stock: ClassVar[Kinds] = {}

    def __init__(self, config: S5Config, modes: int):
        super().__init__()
        self.conj_sym, self.bidirectional = config.conj_sym, config.bidirectional
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
        """C of each direction, (h, P, 2)."""
        if hasattr(self, "C1"):
            return [self.C1, self.C2]
        return list(self.C.split(self.modes, dim=1)) if self.modes else [self.C]

    def discrete(self) -> tuple[Tensor, Tensor]:
        """Discretised poles (P,) and input matrix (P, h), complex."""
        re = self.Lambda_re.clamp(max=self.clip_at)
        step = self.step_rescale * torch.exp(self.log_step[:, 0])
        lam, factor = discretize(torch.complex(re, self.Lambda_im), step, self.discretization)
        return lam, factor[:, None] * torch.view_as_complex(self.B)

    @property
    def readout_scale(self) -> float:
        """y = 2 Re(C x) when one of each conjugate pair is stored."""
        return 2.0 if self.conj_sym else 1.0

    def forward(self, u: Tensor) -> Tensor:
        if self.modes == 0:
            return u * self.D
        if (y := fused_layer(self, u)) is not None:
            return y
        lam, b_bar = self.discrete()
        bu = u @ torch.cat([b_bar.real, b_bar.imag]).to(u.dtype).T  # (b, L, 2P)
        x = diagonal_scan(lam, bu, self.bidirectional)  # (b, L, d, 2P)
        c = torch.cat([part for c in self.readouts() for part in (c[..., 0], -c[..., 1])], dim=1)  # (h, d * 2P)
        return x.flatten(2) @ (self.readout_scale * c).to(u.dtype).T + u * self.D


class BatchNorm(nn.BatchNorm1d):
    """Batch norm over every axis but the last, as Flax applies it: (b, L, h)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).view_as(x)


class S5Block(nn.Module):
    """Norm, state space layer, activation and gate, residual: z (b, L, h) -> (b, L, h)."""

    stock: ClassVar[Kinds] = {
        "seq": (S5SSM,),
        "norm": (BatchNorm, nn.LayerNorm),
        "out1": (nn.Linear,),
        "out2": (nn.Linear,),
        "drop": (TimeDropout,),
    }

    def __init__(self, config: S5Config, modes: int):
        super().__init__()
        self.activation, self.prenorm = config.activation, config.prenorm
        self.seq = S5SSM(config, modes)
        self.norm: BatchNorm | nn.LayerNorm = (
            BatchNorm(config.h) if config.batchnorm else nn.LayerNorm(config.h, eps=LAYER_NORM_EPS)
        )
        if config.activation == "full_glu":
            self.out1 = nn.Linear(config.h, config.h)
        if config.activation != "gelu":
            self.out2 = nn.Linear(config.h, config.h)
        self.drop = TimeDropout(config.dropout)

    def gate(self, y: Tensor) -> Tensor:
        g = self.drop(F.gelu(y, approximate="tanh"))
        if self.activation == "gelu":
            return g
        if self.activation == "full_glu":
            return self.drop(self.out1(g) * torch.sigmoid(self.out2(g)))
        return self.drop((y if self.activation == "half_glu2" else g) * torch.sigmoid(self.out2(g)))

    def forward(self, z: Tensor) -> Tensor:
        if (fused := fused_block(self, z)) is not None:
            return fused
        out = z + self.gate(self.seq(self.norm(z) if self.prenorm else z))
        return out if self.prenorm else self.norm(out)


class S5Model(nn.Module):
    """Encoder, blocks, pooling, head. model(x, lengths=None) -> logits: (b, classes), or (b, L, tokens) in mode tokens.

    x is (b, L, d_input), or integer tokens (b, L) which stand for their one-hot vectors. With lengths (b,), pooling
    uses only the first lengths[i] steps of sequence i; the scans still run over the padding, as in the official code.
    A retrieval model takes 2n documents, the first of each pair in the first half, and returns n rows.
    """

    family = "s5"
    stock: ClassVar[Kinds] = {"encoder": (nn.Linear,), "layers": (S5Block,)}

    def __init__(self, config: S5Config):
        super().__init__()
        self.config = config
        self.encoder = nn.Linear(config.d_input, config.h)
        self.layers = nn.ModuleList(S5Block(config, modes) for modes in config.modes)
        self.decoder = make_head(config.h, config.d_output, config.retrieval)

    def encode(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.int64, torch.int32, torch.uint8):
            return F.embedding(x.long(), self.encoder.weight.T + self.encoder.bias)
        return self.encoder(x)

    def pool(self, z: Tensor, lengths: Tensor | None) -> Tensor:
        """The stack's output (b, L, h) as the head takes it: (b, h), or all of it in mode tokens."""
        return pooled(z, lengths, self.config.mode)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        features = fused_features(self, x, lengths)
        if features is None:
            z = self.encode(x)
            for layer in self.layers:
                z = layer(z)
            features = self.pool(z, lengths)
        return self.decoder(features)


def hippo_normal(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (n,) and eigenvectors (n, n) of the normal part of HiPPO-LegS, by ascending imaginary part."""
    q = np.sqrt(2 * np.arange(n) + 1.0)
    hippo = -(np.tril(np.outer(q, q)) - np.diag(np.arange(n)))
    p = np.sqrt(np.arange(n) + 0.5)
    normal = hippo + np.outer(p, p)
    imag, vectors = np.linalg.eigh(normal * -1j)
    return np.mean(np.diagonal(normal)) + 1j * imag, vectors


def initialize(model: S5Model, seed: int = 0) -> S5Model:
    """The official initialisation: HiPPO-N poles in `blocks` copies, B and C drawn in the eigenbasis."""
    config, rng = model.config, np.random.default_rng(seed)
    block = config.n // config.blocks
    lam, vectors = hippo_normal(block)
    stored = block // 2 if config.conj_sym else block
    lam, vectors = lam[:stored], vectors[:, :stored]  # one of each pair
    lam, v = np.tile(lam, config.blocks), np.kron(np.eye(config.blocks), vectors)  # (P,), (n, P)

    def normal(*shape: int, std: float) -> np.ndarray:
        return rng.standard_normal(shape) * std

    def parts(z: np.ndarray) -> Tensor:
        return torch.tensor(np.stack([z.real, z.imag], -1), dtype=torch.float32)

    def readout(columns: int) -> Tensor:
        if config.C_init == "complex_normal":
            return torch.tensor(normal(config.h, columns, 2, std=math.sqrt(0.5)), dtype=torch.float32)
        c = normal(config.h, config.n, 2, std=1 / math.sqrt(config.n))
        return parts((c[..., 0] + 1j * c[..., 1]) @ v)

    torch.manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear):  # Flax's lecun_normal kernels and zero biases
                nn.init.trunc_normal_(module.weight, std=1 / math.sqrt(module.in_features) / 0.87962566, a=-2, b=2)
                nn.init.zeros_(module.bias)
            if isinstance(module, S5SSM):
                module.Lambda_re.copy_(torch.tensor(lam.real))
                module.Lambda_im.copy_(torch.tensor(lam.imag))
                module.B.copy_(parts(v.conj().T @ normal(config.n, config.h, std=1 / math.sqrt(config.n))))
                for name in ("C", "C1", "C2"):
                    if hasattr(module, name):
                        getattr(module, name).copy_(readout(getattr(module, name).shape[1]))
                module.D.copy_(torch.tensor(normal(config.h, std=1.0)))
                steps = rng.uniform(math.log(config.dt_min), math.log(config.dt_max), (len(lam), 1))
                module.log_step.copy_(torch.tensor(steps))
    return model
