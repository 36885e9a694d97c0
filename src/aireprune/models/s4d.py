"""S4D in PyTorch, parameter-compatible with the S4 repository's standalone s4d.py and the classifier of its example.py.

Shapes: b batch, L time, h channels, N stored conjugate pairs per channel.

    encoder.weight (h, d_input)         s4_layers.i.D (h,)
    s4_layers.i.kernel.C (h, N, 2)      s4_layers.i.kernel.log_dt (h,)      s4_layers.i.kernel.log_A_real, A_imag (h, N)
    s4_layers.i.output_linear.0.weight (2h, h, 1)      norms.i      decoder.weight (d_output, h)

Departures from the original: activations are (b, L, h) throughout, so nothing is transposed; the layer is a scan over
the modes that are not silent (`aireprune.kernels.s4d`) instead of a convolution; poles are discretised in double precision,
and without gradients only when a parameter has changed; a layer may have any number of modes, zero included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.kernels.gates import gelu, glu
from aireprune.kernels.inputs import needs_grad
from aireprune.kernels.s4d import can_scan_packed, s4d, scan_packed
from aireprune.kernels.s4d_dispatch import trained_block
from aireprune.models.discretize import discretize
from aireprune.models.dropout import TimeDropout
from aireprune.models.encoder import encoded
from aireprune.models.heads import make_head, pooled
from aireprune.models.recurrence.s4d import S4DFamily
from aireprune.models.recurrent import Recurrent
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s4d_modes import kept_modes


class S4DKernel(nn.Module):
    """The parameters of a layer's modes."""

    def __init__(self, h: int, modes: int):
        super().__init__()
        self.C = nn.Parameter(torch.empty(h, modes, 2))
        self.log_dt = nn.Parameter(torch.empty(h))
        self.log_A_real = nn.Parameter(torch.empty(h, modes))
        self.A_imag = nn.Parameter(torch.empty(h, modes))

    def extra_repr(self) -> str:
        channels, modes = self.A_imag.shape
        return f"channels={channels}, modes={modes}"

    def discrete(self) -> tuple[Tensor, Tensor]:
        """lam = exp(A dt) and w = 2 C (lam - 1)/A, (h, N) complex128: K_l = Re sum_j w_j lam_j^l."""
        a = torch.complex(-torch.exp(self.log_A_real.double()), self.A_imag.double())
        lam, factor = discretize(a, torch.exp(self.log_dt.double())[:, None], "zoh")
        c = self.C.double()
        return lam, 2 * torch.complex(c[..., 0], c[..., 1]) * factor


class Mixing(nn.Conv1d):
    """The dense layer that mixes the channels, stored as a convolution of width 1: (b, L, h) -> (b, L, 2h)."""

    channels_last: ClassVar[bool] = True

    def forward(self, g: Tensor) -> Tensor:
        return F.linear(g, self.weight[:, :, 0], self.bias)


class S4DLayer(nn.Module):
    """State space layer, GELU, and the gated mixing of channels: u (b, L, h) -> (b, L, h)."""

    def __init__(self, config: S4DConfig, modes: int):
        super().__init__()
        self.D = nn.Parameter(torch.empty(config.h))
        self.kernel = S4DKernel(config.h, modes)
        self.output_linear = nn.Sequential(Mixing(config.h, 2 * config.h, kernel_size=1))
        self.drop = TimeDropout(config.dropout)

    def ssm(self, u: Tensor) -> Tensor:
        """y = K * u + D u, the state space layer alone."""
        if can_scan_packed(self.kernel.C.shape[-2], u) and not needs_grad(u, self.D, *self.kernel.parameters()):
            return scan_packed(kept_modes(self.kernel, u.dtype), self.D, u)
        lam, w = self.kernel.discrete()
        return s4d(lam, w, self.D, u)

    def forward(self, u: Tensor) -> Tensor:
        return glu(self.output_linear(self.drop(gelu(self.ssm(u)))))


class S4DModel(Recurrent, nn.Module):
    """Encoder, residual S4D layers, pooling, decoder. model(x, lengths=None) -> (b, classes), or (b, L, tokens).

    x is (b, L, d_input), or integer tokens (b, L) which stand for their one-hot vectors. With lengths (b,), pooling
    uses only the first lengths[i] steps of sequence i; the layers are causal, so the padding does not reach them.
    """

    family = "s4d"
    recurrence = S4DFamily()
    stock: ClassVar[Mapping[str, tuple[type[nn.Module], ...]]] = {
        "layer": (S4DLayer,),
        "kernel": (S4DKernel,),
        "output_linear": (nn.Sequential,),
        "mixing": (Mixing,),
        "drop": (TimeDropout,),
        "norm": (nn.LayerNorm,),
    }

    def __init__(self, config: S4DConfig):
        super().__init__()
        self.config = config
        self.encoder = nn.Linear(config.d_input, config.h)
        self.s4_layers = nn.ModuleList(S4DLayer(config, modes) for modes in config.modes)
        self.norms = nn.ModuleList(nn.LayerNorm(config.h) for _ in config.modes)
        self.drop = TimeDropout(config.dropout)
        self.decoder = make_head(config.h, config.d_output, config.retrieval)

    def encode(self, x: Tensor) -> Tensor:
        return encoded(self.encoder, x)

    def block(self, number: int, z: Tensor) -> Tensor:
        """Layer `number` with its norm, dropout and residual connection."""
        if (fused := trained_block(self, number, z)) is not None:
            return fused
        layer, norm = self.s4_layers[number], self.norms[number]
        if self.config.prenorm:
            out: Tensor = z + self.drop(layer(norm(z)))
        else:
            out = norm(z + self.drop(layer(z)))
        return out

    def pool(self, z: Tensor, lengths: Tensor | None) -> Tensor:
        """The stack's output (b, L, h) as the decoder takes it: (b, h), or all of it in mode tokens."""
        return pooled(z, lengths, self.config.mode)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        z = self.encode(x)
        for number in range(len(self.s4_layers)):
            z = self.block(number, z)
        logits: Tensor = self.decoder(self.pool(z, lengths))
        return logits


def initialize(model: S4DModel, seed: int = 0) -> S4DModel:
    """The original initialisation: S4D-Lin poles A_n = -1/2 + i pi n, steps log-uniform, C and D normal."""
    config, generator = model.config, torch.Generator().manual_seed(seed)

    def normal(tensor: Tensor, std: float) -> None:
        tensor.copy_(std * torch.randn(tensor.shape, generator=generator))

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, S4DKernel):
                normal(module.C, math.sqrt(0.5))
                low, high = math.log(config.dt_min), math.log(config.dt_max)
                module.log_dt.copy_(low + (high - low) * torch.rand(module.log_dt.shape, generator=generator))
                module.log_A_real.fill_(math.log(0.5))
                module.A_imag.copy_((math.pi * torch.arange(module.A_imag.shape[1])).expand_as(module.A_imag))
            elif isinstance(module, S4DLayer):
                normal(module.D, 1.0)
            elif isinstance(module, nn.Linear | nn.Conv1d):  # torch's own defaults, from this generator
                bound = 1 / math.sqrt(module.weight[0].numel())
                for tensor in (module.weight, module.bias):
                    assert tensor is not None
                    tensor.copy_((2 * torch.rand(tensor.shape, generator=generator) - 1) * bound)
    return model


__all__ = ["S4DConfig", "S4DKernel", "S4DLayer", "S4DModel", "initialize"]
