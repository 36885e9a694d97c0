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
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as _everywhere

from aireprune.kernels.s5 import fusible, s5_block, wants_grad
from aireprune.kernels.scan import diagonal_scan
from aireprune.models.heads import make_head, pooled
from aireprune.models.s5_config import S5Config

CLIP_EIGS_AT = -1e-4
LAYER_NORM_EPS = 1e-6  # Flax's default, not torch's
SLICE = 24 << 20  # bytes of activations that go through all layers before others do: memory that stays, faults no page


def discretize(lam: Tensor, step: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """Continuous pole and step -> discrete pole and the factor that turns B into its discrete form."""
    if method == "zoh":
        z = lam * step
        tiny = z.abs() < 1e-4  # (e^z - 1)/z by its series, where the quotient cancels; the limit at a zero pole is 1
        safe = torch.where(tiny, torch.ones_like(z), z)
        return torch.exp(z), torch.where(tiny, 1 + z / 2 + z * z / 6, (torch.exp(safe) - 1) / safe) * step
    half = lam * (step / 2)
    return (1 + half) / (1 - half), step / (1 - half)


class S5SSM(nn.Module):
    """u (b, L, h) -> y (b, L, h), the state space layer alone."""

    def __init__(self, config: S5Config, modes: int):
        super().__init__()
        self.conj_sym, self.bidirectional = config.conj_sym, config.bidirectional
        self.discretization, self.clip_eigs = config.discretization, config.clip_eigs
        self.step_rescale, self.modes = config.step_rescale, modes
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

    def readouts(self) -> list[Tensor]:
        """C of each direction, (h, P, 2)."""
        if hasattr(self, "C1"):
            return [self.C1, self.C2]
        return list(self.C.split(self.modes, dim=1)) if self.modes else [self.C]

    def discrete(self) -> tuple[Tensor, Tensor]:
        """Discretised poles (P,) and input matrix (P, h), complex."""
        re = self.Lambda_re.clamp(max=CLIP_EIGS_AT) if self.clip_eigs else self.Lambda_re
        step = self.step_rescale * torch.exp(self.log_step[:, 0])
        lam, factor = discretize(torch.complex(re, self.Lambda_im), step, self.discretization)
        return lam, factor[:, None] * torch.view_as_complex(self.B)

    def as_stored(self) -> dict[str, Any]:
        """The layer as `s5_block` takes it: parameters that are not discretised yet, and how they are to be."""
        return {
            "poles": (self.Lambda_re, self.Lambda_im, self.log_step[:, 0]),
            "step_rescale": self.step_rescale,
            "clip_at": CLIP_EIGS_AT if self.clip_eigs else math.inf,
            "method": self.discretization,
            "b": self.B,
            "c": self.readouts(),
            "c_scale": self.readout_scale,
            "d": self.D,
        }

    @property
    def readout_scale(self) -> float:
        """y = 2 Re(C x) when one of each conjugate pair is stored."""
        return 2.0 if self.conj_sym else 1.0

    def forward(self, u: Tensor) -> Tensor:
        if self.modes == 0:
            return u * self.D
        if fusible(u, self):
            return s5_block(u, **self.as_stored())
        lam, b_bar = self.discrete()
        bu = u @ torch.cat([b_bar.real, b_bar.imag]).to(u.dtype).T  # (b, L, 2P)
        x = diagonal_scan(lam, bu, self.bidirectional)  # (b, L, d, 2P)
        c = torch.cat([part for c in self.readouts() for part in (c[..., 0], -c[..., 1])], dim=1)  # (h, d * 2P)
        return x.flatten(2) @ (self.readout_scale * c).to(u.dtype).T + u * self.D


class BatchNorm(nn.BatchNorm1d):
    """Batch norm over every axis but the last, as Flax applies it: (b, L, h)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).view_as(x)


class TimeDropout(nn.Module):
    """Dropout that drops a feature for the whole sequence (Flax's broadcast over time)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.p
        return x * (keep.to(x.dtype) / (1 - self.p))


def _stock(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether the module is one of these, unchanged, and no hook sees what goes in or comes out, and may keep it."""
    return type(module) in kinds and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or "forward" in module.__dict__
        or _everywhere._global_forward_hooks
        or _everywhere._global_forward_pre_hooks
    )


class S5Block(nn.Module):
    """Norm, state space layer, activation and gate, residual: z (b, L, h) -> (b, L, h)."""

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

    def forward(self, z: Tensor, reuse: bool = False) -> Tensor:
        """reuse: the result may take the place of z, if no gradient is wanted."""
        if self.whole and fusible(z, self):
            return self.fused(z, reuse)
        out = z + self.gate(self.seq(self.norm(z) if self.prenorm else z))
        return out if self.prenorm else self.norm(out)

    @property
    def whole(self) -> bool:
        """Whether no part has to run by itself, because it is in training, or someone listens to it or has replaced it."""
        gates = [getattr(self, name) for name in ("out1", "out2") if hasattr(self, name)]
        norm = self.norm
        return (
            _stock(self.seq, S5SSM)
            and _stock(self.drop, TimeDropout)
            and _stock(norm, BatchNorm, nn.LayerNorm)
            and norm.weight is not None
            and norm.bias is not None
            and getattr(norm, "running_var", norm.weight) is not None
            and all(_stock(gate, nn.Linear) and gate.bias is not None for gate in gates)
            and not any(part.training for part in self.children())
        )

    def fused(self, z: Tensor, reuse: bool = False) -> Tensor:
        """A whole block as one operator, if no gradient is wanted. It takes the weights as they are at this call."""
        norm, batch = self.norm, isinstance(self.norm, BatchNorm)
        statistics = (norm.running_mean, norm.running_var) if isinstance(norm, BatchNorm) else ()
        gates: list[nn.Linear] = [getattr(self, name) for name in ("out1", "out2") if hasattr(self, name)]
        return s5_block(
            z,
            **self.seq.as_stored(),
            activation=self.activation,
            gates=[(gate.weight, gate.bias) for gate in gates],
            norm=("pre" if self.prenorm else "post") + ("_batch" if batch else "_layer"),
            norm_weights=[norm.weight, norm.bias, *statistics],
            eps=norm.eps,
            reuse=reuse,
        )


class S5Model(nn.Module):
    """Encoder, blocks, pooling, head. model(x, lengths=None) -> logits: (b, classes), or (b, L, tokens) in mode tokens.

    x is (b, L, d_input), or integer tokens (b, L) which stand for their one-hot vectors. With lengths (b,), pooling
    uses only the first lengths[i] steps of sequence i; the scans still run over the padding, as in the official code.
    A retrieval model takes 2n documents, the first of each pair in the first half, and returns n rows.
    """

    family = "s5"

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

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        if not self._unseen(x):
            z = self.encode(x)
            for layer in self.layers:
                z = layer(z)
            return self.decoder(pooled(z, lengths, self.config.mode))
        size = x.shape[0] * x.shape[1] * self.config.h * self.encoder.weight.element_size()
        slices = 1 if self.config.mode == "tokens" else min(len(x), -(-size // SLICE))
        parts = [self._features(part, some) for part, some in _split(x, lengths, slices)]
        return self.decoder(parts[0] if len(parts) == 1 else torch.cat(parts))

    def _unseen(self, x: Tensor) -> bool:
        """Whether nobody sees what passes between the layers, so that it may be overwritten and come in slices."""
        return (
            not torch.compiler.is_compiling()
            and not wants_grad(x, self)
            and _stock(self.encoder, nn.Linear)
            and fusible(self.encoder.weight, self)
            and all(_stock(layer, S5Block) and layer.whole for layer in self.layers)
        )

    def _features(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """What the head takes of a few sequences; all layers work in the same memory."""
        z = self.encode(x)
        for layer in self.layers:
            assert isinstance(layer, S5Block)
            z = layer.fused(z, reuse=True)
        return pooled(z, lengths, self.config.mode)


def _split(x: Tensor, lengths: Tensor | None, count: int) -> list[tuple[Tensor, Tensor | None]]:
    if count < 2:
        return [(x, lengths)]
    parts = x.tensor_split(count)
    return list(zip(parts, [None] * count if lengths is None else lengths.tensor_split(count), strict=True))


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
