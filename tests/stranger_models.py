"""Networks as other people write them around state space layers, and inputs for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 12


class S4DKernel(nn.Module):
    """As in the S4 repository's standalone s4d.py."""

    def __init__(self, h: int, n: int = 16):
        super().__init__()
        self.C = nn.Parameter(torch.randn(h, n // 2, 2))
        self.log_dt = nn.Parameter(torch.rand(h) * 3 - 5)
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(h, n // 2)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(n // 2).float().repeat(h, 1))

    def forward(self, L: int) -> Tensor:
        a = -torch.exp(self.log_A_real) + 1j * self.A_imag
        step = a * torch.exp(self.log_dt)[:, None]
        c = torch.view_as_complex(self.C) * (torch.exp(step) - 1) / a
        return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(step[..., None] * torch.arange(L))).real


class S4D(nn.Module):
    """u (b, h, L) -> (b, h, L), None."""

    def __init__(self, h: int, step: float = 1.0):
        super().__init__()
        self.D = nn.Parameter(torch.randn(h))
        self.kernel, self.activation, self.step = S4DKernel(h), nn.GELU(), step
        self.output_linear = nn.Sequential(nn.Conv1d(h, 2 * h, 1), nn.GLU(dim=-2))

    def forward(self, u: Tensor) -> tuple[Tensor, None]:
        length = u.shape[-1]
        kernel = self.step * self.kernel(L=length)
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(kernel, n=2 * length), n=2 * length)
        return self.output_linear(self.activation(y[..., :length] + u * self.D[:, None])), None


class LRU(nn.Module):
    """u (b, L, h) -> (b, L, h)."""

    def __init__(self, h: int, n: int = 12):
        super().__init__()
        self.nu_log = nn.Parameter(torch.log(-torch.log(0.6 + 0.39 * torch.rand(n))))
        self.theta_log, self.gamma_log = nn.Parameter(torch.log(3 * torch.rand(n))), nn.Parameter(torch.zeros(n))
        self.B_re, self.B_im = (nn.Parameter(torch.randn(n, h) / 4) for _ in range(2))
        self.C_re, self.C_im = (nn.Parameter(torch.randn(h, n) / 4) for _ in range(2))
        self.D = nn.Parameter(torch.randn(h))

    def forward(self, u: Tensor) -> Tensor:
        lam = torch.exp(torch.complex(-self.nu_log.exp(), self.theta_log.exp()))
        b = torch.complex(self.B_re, self.B_im) * self.gamma_log.exp()[:, None]
        state, out = torch.zeros(len(u), len(lam), dtype=torch.complex64), []
        for u_t in u.unbind(1):
            state = lam * state + u_t.to(b.dtype) @ b.T
            out.append((state @ torch.complex(self.C_re, self.C_im).T).real + u_t * self.D)
        return torch.stack(out, 1)


class Network(nn.Module):
    """S4D layers with the channels first, a batch norm, an LRU, and an argument of its own."""

    def __init__(self, step: float = 1.0):
        super().__init__()
        self.encoder = nn.Linear(2, WIDTH)
        self.parts = nn.ModuleDict({"first": S4D(WIDTH, step), "second": S4D(WIDTH, step)})
        self.norm, self.lru, self.head = nn.BatchNorm1d(WIDTH), LRU(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> dict[str, Any]:
        z = self.encoder(x).transpose(1, 2)
        for part in self.parts.values():
            z = z + part(z)[0]
        z = self.norm(z).transpose(1, 2)
        return {"scale": scale, "answer": scale * self.head((z + torch.tanh(self.lru(z))).mean(1))}


def s5_pytorch() -> nn.Module:
    from s5 import S5Block

    return nn.Sequential(nn.Linear(2, 8), S5Block(8, 16, bidir=False), S5Block(8, 16, bidir=True), nn.Linear(8, 3))


def mambapy(norms: bool) -> nn.Module:
    from mambapy.mamba import Mamba, MambaConfig

    config = MambaConfig(d_model=8, n_layers=2, d_state=8, inner_layernorms=norms)
    return nn.Sequential(nn.Linear(2, 8), Mamba(config), nn.Linear(8, 3))


def _seeded(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        torch.manual_seed(3)
        return make().eval()

    return made


STRANGERS: dict[str, Callable[[], nn.Module]] = {
    "network": _seeded(Network),
    "s5-pytorch": _seeded(s5_pytorch),
    "mambapy": _seeded(lambda: mambapy(False)),
    "mambapy with norms": _seeded(lambda: mambapy(True)),
}
