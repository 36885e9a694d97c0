"""The selective scan of Mamba-1 as a torch operator.

Shapes: b batch, L time, D channels, N states.

    Delta = softplus(dt + dt_bias)   h_t = exp(Delta A) h_{t-1} + Delta B_t x_t   y_t = (C_t . h_t + D x_t) silu(z_t)

Numba serves CPU tensors and never holds anything of size (b, L, D, N). CUDA tensors get mamba_ssm's kernel where it is
installed, else a Triton kernel, which has no backward. Whatever is left gets the plain torch reference, which autograd
differentiates by itself. bfloat16 and float16 are computed in float32.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.inputs import columns, dense, expect, forward_mode, needs_grad
from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.operators import operator
from aireprune.kernels.triton.support import have_triton

HAVE_MAMBA_SSM = importlib.util.find_spec("mamba_ssm") is not None


def selective_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    z: Tensor | None = None,
    initial: Tensor | None = None,
    reuse_dt: bool = False,
) -> tuple[Tensor, Tensor]:
    """x, dt, z (b, L, D), A (D, N) < 0, B and C (b, L, N), initial (b, D, N) -> y (b, L, D), final state (b, D, N).

    reuse_dt: where no gradient is wanted, y may take dt's memory; touching fresh memory costs as much as a few states.
    """
    (batch, length, channels), n = x.shape, A.shape[-1]
    per_channel, per_state = (batch, length, channels), (batch, length, n)
    expect(
        "selective_scan", dt=(dt, per_channel), A=(A, (channels, n)), B=(B, per_state), C=(C, per_state), D=(D, (channels,)),
        dt_bias=(dt_bias, (channels,)), z=(z, per_channel), initial=(initial, (batch, channels, n)),
    )  # fmt: skip
    working = torch.float64 if x.dtype == torch.float64 else torch.float32
    numba = x.device.type == "cpu" and not forward_mode()
    arguments = (
        x.to(working),
        dt.to(working),
        A.to(working),
        B.to(working),
        C.to(working),
        x.new_zeros(channels, dtype=working) if D is None else D.to(working),
        x.new_zeros(channels, dtype=working) if dt_bias is None else dt_bias.to(working),
        None if z is None else z.to(working),
        x.new_zeros(x.shape[0], *A.shape, dtype=working) if initial is None else initial.to(working),
    )
    if numba and reuse_dt and not torch.is_grad_enabled() and arguments[1].is_contiguous():
        state = arguments[-1].transpose(1, 2).clone(memory_format=torch.contiguous_format)
        _selective_scan_(*arguments[:-1], state)
        y, final = arguments[1], state.transpose(1, 2).contiguous()
    elif numba:
        y, final = _selective_scan(*arguments)
    elif x.is_cuda and initial is None and HAVE_MAMBA_SSM:
        y, final = mamba_ssm_scan(*arguments[:-1])
    elif x.is_cuda and have_triton() and not needs_grad(*arguments) and not forward_mode():
        y, final = _selective_scan(*arguments)
    else:
        y, final = selective_scan_reference(*arguments)
    return y.to(x.dtype), final


def mamba_ssm_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor, z: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The original CUDA kernel, with gradients; it wants time last and starts from zero."""
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

    x, dt, B, C = (t.transpose(1, 2).contiguous() for t in (x, dt, B, C))
    gate = None if z is None else z.transpose(1, 2).contiguous()
    y, final = selective_scan_fn(
        x, dt, A, B, C, D, z=gate, delta_bias=dt_bias, delta_softplus=True, return_last_state=True
    )
    return y.transpose(1, 2), final


def selective_scan_reference(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    """The recurrence step by step in plain torch; slow, differentiable, runs on any device."""
    delta = F.softplus(dt + dt_bias)
    h, outputs = initial, []
    for t in range(x.shape[1]):
        step = delta[:, t, :, None]
        h = torch.exp(step * A) * h + step * B[:, t, None, :] * x[:, t, :, None]
        outputs.append((h * C[:, t, None, :]).sum(-1))
    y = (torch.stack(outputs, dim=1) if outputs else 0) + D * x
    return (y if z is None else y * F.silu(z)), h


def selective_step(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None = None,
) -> Tensor:
    """One step of decoding, no gradients: x, dt, z (b, D), B and C (b, N); `state` (b, D, N) is updated in place."""
    (batch, channels), n = x.shape, A.shape[-1]
    expect(
        "selective_step", state=(state, (batch, channels, n)), dt=(dt, (batch, channels)), A=(A, (channels, n)),
        B=(B, (batch, n)), C=(C, (batch, n)), D=(D, (channels,)), dt_bias=(dt_bias, (channels,)), z=(z, (batch, channels)),
    )  # fmt: skip
    if x.device.type == "cpu" and x.dtype == state.dtype == torch.float32 and state.is_contiguous():
        out: Tensor = _selective_step(state, x, dt, A.float(), B, C, D.float(), dt_bias.float(), z)
        return out
    gate = None if z is None else z[:, None]
    y, final = selective_scan(x[:, None], dt[:, None], A, B[:, None], C[:, None], D, dt_bias, gate, state)
    state.copy_(final)
    return y[:, 0]


def block_width(jobs: int, channels: int, threads: int) -> int:
    """Channels per job: wide blocks read memory in long runs, but every thread should be busy to the end."""
    for width in (256, 128):
        count = jobs * -(-channels // width)
        if width <= channels and count / (-(-count // threads) * threads) > 0.9:
            return width
    return 64


@operator("selective_scan")
def _selective_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    state = initial.transpose(1, 2).clone(memory_format=torch.contiguous_format)
    y = x.new_empty(x.shape)
    scan_into(x, dt, A, B, C, D, dt_bias, z, state, y)
    return y, state.transpose(1, 2).contiguous()


@_selective_scan.register_fake
def _(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(initial.shape)


@operator("selective_scan_", mutates=("dt", "state"))
def _selective_scan_(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor, z: Tensor | None, state: Tensor
) -> None:
    """In place: y takes the place of dt, the final state (b, N, D) that of the initial one."""
    scan_into(x, dt, A, B, C, D, dt_bias, z, state, dt)


@_selective_scan_.register_fake
def _(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor, z: Tensor | None, state: Tensor
) -> None:
    return None


def scan_into(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None,
    state: Tensor,
    y: Tensor,
) -> None:
    """The kernel itself: y (b, L, D), which may be dt, and state (b, N, D) are filled."""
    from aireprune.kernels.numba.compile import threads
    from aireprune.kernels.numba.selective import selective_forward

    out = y.detach().numpy()
    gate, column = (out, 0) if z is None else columns(z)
    width = block_width(x.shape[0], x.shape[2], threads())
    inputs = [dense(t) for t in (x, dt, A, B, C, D, dt_bias)]
    selective_forward(*inputs, gate, z is not None, state.detach().numpy(), out, column, width)


@operator("selective_scan_backward", final=True)
def _selective_scan_backward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None,
    initial: Tensor,
    gy: Tensor,
    gfinal: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    from aireprune.kernels.numba.selective import BACKWARD_BLOCK, selective_backward

    batch, length, channels = x.shape
    n = A.shape[1]
    blocks = -(-channels // BACKWARD_BLOCK)
    state = initial.transpose(1, 2).contiguous()
    gstate = gfinal.transpose(1, 2).clone(memory_format=torch.contiguous_format)
    gx, gdt = x.new_empty(x.shape), x.new_empty(x.shape)
    gz = x.new_empty(0, 0, 0) if z is None else x.new_empty(x.shape)
    gA, gD = x.new_empty(batch, n, channels), x.new_empty(batch, channels)
    gB, gC = x.new_empty(batch, blocks, length, n), x.new_empty(batch, blocks, length, n)
    outputs = [t.numpy() for t in (gstate, gx, gdt, gA, gB, gC, gD, gz)]
    gate = gx.numpy() if z is None else dense(z)
    inputs = [dense(t) for t in (x, dt, (A * LOG2E).T, B, C, D, dt_bias)]  # A as (N, D), in powers of two
    selective_backward(*inputs, gate, z is not None, state.numpy(), dense(gy), *outputs)
    return (
        gx,
        gdt,
        (LOG2E * gA.sum(0)).T.contiguous(),
        gB.sum(1),
        gC.sum(1),
        gD.sum(0),
        gz,
        gstate.transpose(1, 2).contiguous(),
    )


@_selective_scan_backward.register_fake
def _(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None,
    initial: Tensor,
    gy: Tensor,
    gfinal: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    gz = x.new_empty(0, 0, 0) if z is None else x.new_empty(x.shape)
    like = [x.new_empty(t.shape) for t in (x, x, A, B, C, D)]
    return like[0], like[1], like[2], like[3], like[4], like[5], gz, x.new_empty(initial.shape)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, gy: Tensor, gfinal: Tensor) -> tuple[Tensor | None, ...]:
    gx, gdt, gA, gB, gC, gD, gz, ginitial = _selective_scan_backward(*ctx.saved_tensors, gy, gfinal)
    return gx, gdt, gA, gB, gC, gD, gdt.sum((0, 1)), (gz if gz.numel() else None), ginitial


_selective_scan.register_autograd(_backward, setup_context=_save_for_backward)


@operator("selective_step", mutates=("state",))
def _selective_step(
    state: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor, z: Tensor | None
) -> Tensor:
    from aireprune.kernels.numba.selective import selective_step as kernel

    y = x.new_empty(x.shape)
    inputs = [dense(t) for t in (x, dt, A * LOG2E, B, C, D, dt_bias)]
    kernel(state.detach().numpy(), *inputs, inputs[0] if z is None else dense(z), z is not None, y.numpy())
    return y


@_selective_step.register_fake
def _(
    state: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt_bias: Tensor, z: Tensor | None
) -> Tensor:
    return x.new_empty(x.shape)
