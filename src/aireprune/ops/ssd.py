"""The scan of Mamba-2 as a torch operator: H heads of P channels, G groups of N states, one decay per head."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.ops.kernel_inputs import LOG2E, dense, needs_grad
from aireprune.ops.scan import HAVE_NUMBA


def ssd_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    limits: tuple[float, float] = (0.0, math.inf),
    initial: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Mamba-2: x (b, L, H, P), dt (b, L, H), A (H,), B and C (b, L, G, N), state (b, H, P, N) -> y like x, final state.

    Delta is clipped to `limits`. The numba kernel has no backward; where a gradient is wanted, the reference runs.
    """
    working = torch.float64 if x.dtype == torch.float64 else torch.float32
    tensors = [t.to(working) for t in (x, dt, A, B, C, D, dt_bias)]
    state = x.new_zeros(*x.shape[::2], x.shape[3], B.shape[3]) if initial is None else initial
    state = state.to(working)
    fused = HAVE_NUMBA and x.device.type == "cpu" and not needs_grad(*tensors)
    run: Any = _ssd_scan if fused else ssd_scan_reference
    y, final = run(*tensors, float(limits[0]), float(limits[1]), state)
    return y.to(x.dtype), final


def ssd_scan_reference(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    low: float,
    high: float,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    """The Mamba-2 recurrence step by step in plain torch."""
    delta = F.softplus(dt + dt_bias).clamp(low, high)
    per_head = x.shape[2] // B.shape[2]
    b_heads, c_heads = B.repeat_interleave(per_head, 2), C.repeat_interleave(per_head, 2)
    s, outputs = initial, []
    for t in range(x.shape[1]):
        step = delta[:, t, :, None, None]
        s = torch.exp(step * A[:, None, None]) * s + step * x[:, t, :, :, None] * b_heads[:, t, :, None, :]
        outputs.append((s * c_heads[:, t, :, None, :]).sum(-1))
    return torch.stack(outputs, 1) + D[:, None] * x, s


@torch.library.custom_op("aireprune::ssd_scan", mutates_args=(), device_types="cpu")
def _ssd_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    low: float,
    high: float,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    from aireprune.ops.numba_selective import ssd_forward

    state = initial.transpose(2, 3).clone(memory_format=torch.contiguous_format)
    y = x.new_empty(x.shape)
    inputs = [dense(t) for t in (x, dt, A * LOG2E, B, C, D, dt_bias)]
    clip = [torch.tensor(v, dtype=x.dtype).numpy()[()] for v in (low, high)]
    ssd_forward(*inputs, *clip, state.numpy(), y.numpy())
    return y, state.transpose(2, 3).contiguous()


@_ssd_scan.register_fake
def _(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    low: float,
    high: float,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(initial.shape)
