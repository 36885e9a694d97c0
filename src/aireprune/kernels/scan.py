"""The diagonal scan x_t = lam * x_{t-1} + bu_t as a torch operator.

`diagonal_scan` is what models call. It takes and returns real tensors with [Re | Im] in the last axis, so that the
projections before and after it are single real matrix products. The numba kernel serves CPU tensors, Triton
kernels CUDA tensors; whatever is left gets the plain torch reference, which autograd can differentiate by itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aireprune.kernels.inputs import expect, forward_mode
from aireprune.kernels.operators import operator
from aireprune.kernels.triton.support import have_triton

CACHE_LINE = 64  # bytes; a vector across two of them is loaded twice


def fresh(like: Tensor, *shape: int) -> Tensor:
    """An empty CPU tensor that begins at a cache line. NumPy asks for large pages where torch does not, and touching fresh
    memory in small pages costs a kernel as much as a third of its arithmetic."""
    size, line = math.prod(shape), CACHE_LINE // like.element_size()
    memory = np.empty(size + line, str(like.dtype).removeprefix("torch."))
    skip = -memory.ctypes.data % CACHE_LINE // memory.itemsize
    return torch.from_numpy(memory[skip : skip + size].reshape(shape))


def diagonal_scan(lam: Tensor, bu: Tensor, bidirectional: bool = False) -> Tensor:
    """Scan along time, forwards and, if asked, backwards.

    lam (P,) complex; bu (batch, L, 2P) real [Re | Im] -> x (batch, L, directions, 2P) real [Re | Im].
    """
    if bu.dtype in (torch.bfloat16, torch.float16):  # autocast: states stay float32
        return diagonal_scan(lam, bu.float(), bidirectional).to(bu.dtype)
    expect("diagonal_scan", lam=(lam, (bu.shape[-1] // 2,)), bu=(bu, (*bu.shape[:2], 2 * len(lam))))
    lam_re, lam_im = lam.real.contiguous().to(bu.dtype), lam.imag.contiguous().to(bu.dtype)
    fast = bu.device.type == "cpu" or (bu.is_cuda and have_triton())
    if fast and bu.dtype in (torch.float32, torch.float64) and not forward_mode():
        return _diagonal_scan(lam_re, lam_im, bu, bidirectional)
    return diagonal_scan_reference(lam_re, lam_im, bu, bidirectional)


def diagonal_scan_reference(lam_re: Tensor, lam_im: Tensor, bu: Tensor, bidirectional: bool = False) -> Tensor:
    """The recurrence step by step in plain torch; slow, differentiable, runs on any device."""
    lam = torch.complex(lam_re, lam_im)
    v = torch.complex(*bu.chunk(2, dim=-1))
    directions = [_recurrence(lam, v)]
    if bidirectional:
        directions.append(_recurrence(lam, v.flip(1)).flip(1))
    x = torch.stack(directions, dim=2)
    return torch.cat([x.real, x.imag], dim=-1)


def _recurrence(lam: Tensor, v: Tensor) -> Tensor:
    state = v.new_zeros(v.shape[0], v.shape[2])
    states = []
    for v_t in v.unbind(1):
        state = lam * state + v_t
        states.append(state)
    return torch.stack(states, dim=1) if states else v


@operator("diagonal_scan")
def _diagonal_scan(lam_re: Tensor, lam_im: Tensor, bu: Tensor, bidirectional: bool) -> Tensor:
    from aireprune.kernels.numba import scan as numba_scan

    bu = bu.detach().contiguous()
    batch, length, width = bu.shape
    x = fresh(bu, batch, length, 2 if bidirectional else 1, width)
    numba_scan.scan_forward(lam_re.detach().numpy(), lam_im.detach().numpy(), bu.numpy(), x.numpy())
    return x


@_diagonal_scan.register_fake
def _(lam_re: Tensor, lam_im: Tensor, bu: Tensor, bidirectional: bool) -> Tensor:
    return bu.new_empty(bu.shape[0], bu.shape[1], 2 if bidirectional else 1, bu.shape[2])


@operator("diagonal_scan_backward", final=True)
def _diagonal_scan_backward(lam_re: Tensor, lam_im: Tensor, x: Tensor, gx: Tensor) -> tuple[Tensor, Tensor]:
    from aireprune.kernels.numba import scan as numba_scan

    gx = gx.detach().contiguous()
    batch, length, _, width = x.shape
    dbu, dlam = fresh(x, batch, length, width), x.new_empty(batch, width)
    numba_scan.scan_backward(
        lam_re.detach().numpy(), lam_im.detach().numpy(), x.detach().numpy(), gx.numpy(), dbu.numpy(), dlam.numpy()
    )
    return dbu, dlam.sum(0)


@_diagonal_scan_backward.register_fake
def _(lam_re: Tensor, lam_im: Tensor, x: Tensor, gx: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0], x.shape[1], x.shape[3]), x.new_empty(x.shape[3])


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _backward(ctx: Any, gx: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    lam_re, lam_im, x = ctx.saved_tensors
    dbu, dlam = _diagonal_scan_backward(lam_re, lam_im, x, gx)
    d_re, d_im = dlam.chunk(2)
    return d_re.contiguous(), d_im.contiguous(), dbu, None


_diagonal_scan.register_autograd(_backward, setup_context=_save_for_backward)
