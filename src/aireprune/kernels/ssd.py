"""The scan of Mamba-2 as a torch operator: H heads of P channels, G groups of N states, one decay per head.

    Delta = clip(softplus(dt + dt_bias))   S_t = exp(Delta A) S_{t-1} + Delta x_t B_t^T   y_t = S_t C_t + D x_t

Numba serves CPU tensors, with a backward pass that recomputes the states. On other devices, and for forward-mode
derivatives, the scan is written as matrix products over chunks of time in plain torch (`ssd_chunked`), which autograd
differentiates.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.inputs import dense, expect, forward_mode
from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.operators import operator

CHUNK = 32  # time steps that one matrix product covers; longer chunks spend more on their decay matrices


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

    Delta is clipped to `limits`.
    """
    (batch, length, heads, width), (groups, n) = x.shape, B.shape[2:]
    if groups == 0 or heads % groups:
        raise ValueError(f"ssd_scan: {heads} heads cannot be divided into {groups} groups")
    expect(
        "ssd_scan", dt=(dt, (batch, length, heads)), A=(A, (heads,)), D=(D, (heads,)), dt_bias=(dt_bias, (heads,)),
        B=(B, (batch, length, groups, n)), C=(C, (batch, length, groups, n)), initial=(initial, (batch, heads, width, n)),
    )  # fmt: skip
    working = torch.float64 if x.dtype == torch.float64 else torch.float32
    tensors = [t.to(working) for t in (x, dt, A, B, C, D, dt_bias)]
    state = x.new_zeros(batch, heads, width, n) if initial is None else initial
    state = state.to(working)
    run: Any = _ssd_scan if x.device.type == "cpu" and not forward_mode() else ssd_chunked
    y, final = run(*tensors, float(limits[0]), float(limits[1]), state)
    return y.to(x.dtype), final


def ssd_step(
    state: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor
) -> Tensor:
    """One step of decoding, no gradients: x (b, H, P), dt (b, H), B and C (b, G, N); `state` is updated in place."""
    single = x.dtype == state.dtype == torch.float32
    (batch, heads, width), (groups, n) = x.shape, B.shape[1:]
    expect(
        "ssd_step", state=(state, (batch, heads, width, n)), dt=(dt, (batch, heads)), A=(A, (heads,)), D=(D, (heads,)),
        dt_bias=(dt_bias, (heads,)), B=(B, (batch, groups, n)), C=(C, (batch, groups, n)),
    )  # fmt: skip
    if x.device.type == "cpu" and single and state.is_contiguous() and heads % max(groups, 1) == 0:
        out: Tensor = _ssd_step(state, x, dt.float(), A.float(), B.float(), C.float(), D.float(), dt_bias.float())
        return out
    y, final = ssd_scan(x[:, None], dt[:, None], A, B[:, None], C[:, None], D, dt_bias, initial=state)
    state.copy_(final)
    return y[:, 0]


def ssd_reference(
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
    """The recurrence step by step, for tests."""
    delta = F.softplus(dt + dt_bias).clamp(low, high)
    per_head = x.shape[2] // B.shape[2]
    b_heads, c_heads = B.repeat_interleave(per_head, 2), C.repeat_interleave(per_head, 2)
    s, outputs = initial, []
    for t in range(x.shape[1]):
        step = delta[:, t, :, None, None]
        s = torch.exp(step * A[:, None, None]) * s + step * x[:, t, :, :, None] * b_heads[:, t, :, None, :]
        outputs.append((s * c_heads[:, t, :, None, :]).sum(-1))
    return torch.stack(outputs, 1) + D[:, None] * x, s


def ssd_chunked(
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
    """Chunks of T steps, heads h = (g, r): with c_t the sum of Delta A from the chunk's start to t,

    y_t = sum_{s <= t} e^(c_t - c_s) (C_t . B_s) Delta_s x_s + e^(c_t) S_0 C_t,   S_T = e^(c_T) S_0 + ...

    Exponents are never positive, so nothing overflows. The last chunk is filled up with steps of length 0.
    """
    batch, length, heads, width = x.shape
    if length == 0:
        return x, initial
    groups, n = B.shape[2:]
    size = min(CHUNK, max(length, 1))
    fill = -length % size
    shape = (batch, (length + fill) // size, size, groups, heads // groups)
    delta = F.pad(F.softplus(dt + dt_bias).clamp(low, high), (0, 0, 0, fill))
    sums = (delta * A).view(shape).permute(0, 1, 3, 4, 2).cumsum(-1)  # (b, k, g, r, T)
    driven = (F.pad(x, (0, 0, 0, 0, 0, fill)) * delta[..., None]).view(*shape, width).permute(0, 1, 3, 4, 2, 5)
    b_, c_ = (
        F.pad(t, (0, 0, 0, 0, 0, fill)).view(*shape[:4], n).transpose(2, 3)[:, :, :, None] for t in (B, C)
    )  # (b, k, g, 1, T, n)
    later = torch.ones(size, size, dtype=torch.bool, device=x.device).triu(1)
    decay = torch.exp((sums[..., :, None] - sums[..., None, :]).masked_fill(later, -math.inf))
    y = (c_ @ b_.transpose(-1, -2) * decay) @ driven
    to_end = torch.exp(sums[..., -1:] - sums)
    gained = (driven * to_end[..., None]).transpose(-1, -2) @ b_  # (b, k, g, r, P, n)
    state, starts = initial.view(batch, *shape[3:], width, n), []
    for gain, total in zip(gained.unbind(1), sums[..., -1].unbind(1), strict=True):
        starts.append(state)
        state = torch.exp(total)[..., None, None] * state + gain
    y = y + torch.exp(sums)[..., None] * (c_ @ torch.stack(starts, 1).transpose(-1, -2))
    y = y.permute(0, 1, 4, 2, 3, 5).reshape(batch, length + fill, heads, width)[:, :length]
    return y + D[:, None] * x, state.reshape(initial.shape)


@operator("ssd_scan")
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
    from aireprune.kernels.numba.ssd import ssd_forward

    state = initial.transpose(2, 3).clone(memory_format=torch.contiguous_format)
    y = x.new_empty(x.shape)
    inputs = [dense(t) for t in (x, dt, A * LOG2E, B, C, D, dt_bias)]
    ssd_forward(*inputs, *_limits(low, high, x), state.numpy(), y.numpy())
    return y, state.transpose(2, 3).contiguous()


def _limits(low: float, high: float, like: Tensor) -> list[Any]:
    """The limits of Delta as scalars of the kernel's precision."""
    return [torch.tensor(limit, dtype=like.dtype).numpy()[()] for limit in (low, high)]


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


@operator("ssd_scan_backward", final=True)
def _ssd_scan_backward(
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
    y: Tensor,
    gy: Tensor,
    gfinal: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    from aireprune.kernels.numba.ssd_backward import ssd_backward

    ginitial = gfinal.clone(memory_format=torch.contiguous_format)
    gx, gdt, gB, gC = (x.new_empty(t.shape) for t in (x, dt, B, C))
    gA, gD = x.new_empty(dt.shape[::2]), x.new_empty(dt.shape[::2])
    inputs = [dense(t) for t in (x, dt, A * LOG2E, B, C, D, dt_bias)]
    outputs = [t.numpy() for t in (ginitial, gx, gdt, gA, gB, gC, gD)]
    ssd_backward(*inputs, *_limits(low, high, x), dense(initial), dense(y), dense(gy), *outputs)
    return gx, gdt, LOG2E * gA.sum(0), gB, gC, gD.sum(0), ginitial


@_ssd_scan_backward.register_fake
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
    y: Tensor,
    gy: Tensor,
    gfinal: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    like = [x.new_empty(t.shape) for t in (x, dt, A, B, C, D, initial)]
    return like[0], like[1], like[2], like[3], like[4], like[5], like[6]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.low, ctx.high, initial = inputs
    ctx.save_for_backward(*tensors, initial, output[0])


def _backward(ctx: Any, gy: Tensor, gfinal: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, initial, y = ctx.saved_tensors
    gx, gdt, gA, gB, gC, gD, ginitial = _ssd_scan_backward(*tensors, ctx.low, ctx.high, initial, y, gy, gfinal)
    return gx, gdt, gA, gB, gC, gD, gdt.sum((0, 1)), None, None, ginitial


_ssd_scan.register_autograd(_backward, setup_context=_save_for_backward)


@operator("ssd_step", mutates=("state",))
def _ssd_step(
    state: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor
) -> Tensor:
    from aireprune.kernels.numba.ssd import ssd_step as kernel

    y = x.new_empty(x.shape)
    kernel(state.detach().numpy(), *(dense(t) for t in (x, dt, A * LOG2E, B, C, D, dt_bias)), y.numpy())
    return y


@_ssd_step.register_fake
def _(state: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor) -> Tensor:
    return x.new_empty(x.shape)
