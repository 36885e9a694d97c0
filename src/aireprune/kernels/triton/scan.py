# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Triton kernels of the diagonal scan, for CUDA tensors: the layouts of `aireprune.kernels.scan`.

A program takes BLOCK states of one sequence in one direction through time with the states in registers. The last block
is masked, so any number of states costs at most a block more than it holds, and nothing is padded in memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from aireprune.kernels.scan import _diagonal_scan, _diagonal_scan_backward

BLOCK = 32


@triton.jit
def _forward(lam_re, lam_im, bu, x, length, states, directions, BLOCK: tl.constexpr):
    """x_t = lam x_{t-1} + bu_t; programs (block of states, sequence * directions + direction)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sequence, direction = tl.program_id(1) // directions, tl.program_id(1) % directions
    here = i < states
    lr, li = tl.load(lam_re + i, mask=here, other=0.0), tl.load(lam_im + i, mask=here, other=0.0)
    sr, si = tl.zeros_like(lr), tl.zeros_like(li)
    for step in range(length):
        t = step * (1 - direction) + (length - 1 - step) * direction
        row = (sequence * length + t).to(tl.int64)
        source, target = bu + row * 2 * states + i, x + (row * directions + direction) * 2 * states + i
        r = lr * sr - li * si + tl.load(source, mask=here, other=0.0)
        si = lr * si + li * sr + tl.load(source + states, mask=here, other=0.0)
        sr = r
        tl.store(target, sr, mask=here)
        tl.store(target + states, si, mask=here)


@triton.jit
def _backward(lam_re, lam_im, x, gx, dbu, dlam, length, states, directions, BLOCK: tl.constexpr):
    """s_t = gx_t + conj(lam) s_{t+1}: dbu (as x) is s, dlam (batch, directions, 2P) is sum_t s_t conj(x_{t-1})."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sequence, direction = tl.program_id(1) // directions, tl.program_id(1) % directions
    here = i < states
    lr, li = tl.load(lam_re + i, mask=here, other=0.0), tl.load(lam_im + i, mask=here, other=0.0)
    sr, si, gr, gi = tl.zeros_like(lr), tl.zeros_like(lr), tl.zeros_like(lr), tl.zeros_like(lr)
    for step in range(length):
        t = (length - 1 - step) * (1 - direction) + step * direction
        before = t - 1 + 2 * direction
        width = directions * 2 * states
        at = (sequence * length + t).to(tl.int64) * width + direction * 2 * states + i
        past = (sequence * length + before).to(tl.int64) * width + direction * 2 * states + i
        has_past = i < tl.where((before >= 0) & (before < length), states, 0)
        r = tl.load(gx + at, mask=here, other=0.0) + lr * sr + li * si
        si = tl.load(gx + at + states, mask=here, other=0.0) + lr * si - li * sr
        sr = r
        tl.store(dbu + at, sr, mask=here)
        tl.store(dbu + at + states, si, mask=here)
        pr, pi = tl.load(x + past, mask=has_past, other=0.0), tl.load(x + past + states, mask=has_past, other=0.0)
        gr += sr * pr + si * pi
        gi += si * pr - sr * pi
    out = dlam + tl.program_id(1) * 2 * states + i
    tl.store(out, gr, mask=here)
    tl.store(out + states, gi, mask=here)


def triton_diagonal_scan(lam_re: Tensor, lam_im: Tensor, bu: Tensor, bidirectional: bool) -> Tensor:
    """The CUDA implementation of `aireprune::diagonal_scan`."""
    batch, length, width = bu.shape
    directions = 2 if bidirectional else 1
    x = bu.new_empty(batch, length, directions, width)
    if x.numel():
        grid = (triton.cdiv(width // 2, BLOCK), batch * directions)
        _forward[grid](
            lam_re.contiguous(), lam_im.contiguous(), bu.contiguous(), x, length, width // 2, directions, BLOCK=BLOCK
        )
    return x


def triton_diagonal_scan_backward(lam_re: Tensor, lam_im: Tensor, x: Tensor, gx: Tensor) -> tuple[Tensor, Tensor]:
    """The CUDA implementation of `aireprune::diagonal_scan_backward`."""
    batch, length, directions, width = x.shape
    dbu, dlam = torch.empty_like(x), x.new_zeros(batch, directions, width)
    if x.numel():
        grid = (triton.cdiv(width // 2, BLOCK), batch * directions)
        _backward[grid](
            lam_re.contiguous(), lam_im.contiguous(), x.contiguous(), gx.contiguous(), dbu, dlam, length, width // 2,
            directions, BLOCK=BLOCK,
        )  # fmt: skip
    return dbu.sum(2), dlam.sum((0, 1))


_diagonal_scan.register_kernel("cuda")(triton_diagonal_scan)
_diagonal_scan_backward.register_kernel("cuda")(triton_diagonal_scan_backward)
