"""Our operators in torch's own: what takes their place in an exported program. Arguments are those of the operators.

Recurrences are torch's higher-order `scan`, which a program holds as one operator, whatever the length of its input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import aireprune.kernels.conv
import aireprune.kernels.s4d
import aireprune.kernels.scan
import aireprune.kernels.selective
import aireprune.kernels.ssd  # noqa: F401  (importing them defines the operators)
from aireprune.kernels.conv import causal_conv_reference


def diagonal_scan(lam_re: Tensor, lam_im: Tensor, bu: Tensor, bidirectional: bool) -> Tensor:
    """(b, L, 2P) of [Re | Im] -> (b, L, directions, 2P)."""

    def step(x: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
        re, im = x.chunk(2, dim=-1)
        x = torch.cat([lam_re * re - lam_im * im, lam_re * im + lam_im * re], -1) + now
        return x, x.clone()

    begin = bu.new_zeros(bu.shape[0], bu.shape[2])
    ways = [scan(step, begin, bu, dim=1)[1]]
    if bidirectional:
        ways.append(scan(step, begin, bu, dim=1, reverse=True)[1])
    return torch.stack(ways, 2)


def s4d_scan(lam_re: Tensor, lam_im: Tensor, w_re: Tensor, w_im: Tensor, skip: Tensor, u: Tensor) -> Tensor:
    """u (b, L, H) -> y (b, L, H)."""

    def step(x: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
        re, im = x.unbind(1)
        re, im = lam_re * re - lam_im * im + now[..., None], lam_re * im + lam_im * re
        return torch.stack([re, im], 1), (w_re * re - w_im * im).sum(-1)

    begin = u.new_zeros(u.shape[0], 2, *lam_re.shape)
    y: Tensor = scan(step, begin, u, dim=1)[1]
    return y + u * skip


def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor, z: Any, initial: Tensor
) -> tuple[Tensor, Tensor]:
    """x, dt, z (b, L, D), A (D, N), B and C (b, L, N), state (b, D, N) -> y (b, L, D), the last state."""

    def step(h: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        delta, driven, b, c = now
        h = torch.exp(delta[..., None] * A) * h + driven[..., None] * b[:, None]
        return h, (h * c[:, None]).sum(-1)

    delta = F.softplus(dt + dt_bias)
    last, y = scan(step, initial, (delta, delta * x, B, C), dim=1)
    y = y + D * x
    return (y if z is None else y * F.silu(z)), last


def ssd_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor, low: float, high: float,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """x (b, L, H, P), dt (b, L, H), B and C (b, L, G, N), state (b, H, P, N) -> y like x, the last state."""
    per_head = x.shape[2] // B.shape[2]

    def step(s: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        decay, driven, b, c = now
        b, c = (part.repeat_interleave(per_head, 1)[:, :, None] for part in (b, c))
        s = decay[..., None, None] * s + driven[..., None] * b
        return s, (s * c).sum(-1)

    delta = F.softplus(dt + dt_bias).clamp(low, high)
    last, y = scan(step, initial, (torch.exp(delta * A), delta[..., None] * x, B, C), dim=1)
    return y + D[:, None] * x, last


class StandardOperators(TorchFunctionMode):
    """Meanwhile, calls of our operators are calls of the functions above."""

    def __init__(self) -> None:
        super().__init__()
        ours = torch.ops.aireprune
        self._instead: dict[Any, Callable[..., Any]] = {
            ours.diagonal_scan.default: diagonal_scan,
            ours.s4d_scan.default: s4d_scan,
            ours.selective_scan.default: selective_scan,
            ours.ssd_scan.default: ssd_scan,
            ours.causal_conv.default: causal_conv_reference,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._instead.get(func, func)(*args, **(kwargs or {}))
