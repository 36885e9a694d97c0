"""The S4D layer y = K * u + D u with K_l = Re sum_j w_j lam_j^l in every channel, as torch operators.

H channels, N modes per channel, b batch, L time. lam, w (H, N) complex (w = 2 C B for stored conjugate halves), D (H,),
u and y (b, L, H).

Two ways that give the same numbers:
  scan   x_t = lam x_{t-1} + u_t, y_t = Re sum w x_t: numba, O(b L modes), where silent modes cost nothing
  fft    the kernel K, then a linear (zero-padded) convolution: plain torch, any device, differentiable by autograd

`s4d` picks the scan on a CPU unless many modes and a large batch make the convolution faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aireprune.kernels.inputs import expect, forward_mode, is_ordinary
from aireprune.kernels.operators import operator

# Costs per channel and time step, in steps of one mode of the scan (measured at H 256, L 256 to 4096, 32 to 192 modes)
FFT_COST = 8.0  # the convolution, per sequence and factor of two in the length
KERNEL_COST = 23.0  # the kernel, per mode, once for the whole batch
GATHER_ROWS = 16  # collecting scattered channels costs a group about as much as this many mode rows


def s4d(lam: Tensor, w: Tensor, skip: Tensor, u: Tensor) -> Tensor:
    """u (b, L, H) -> y (b, L, H), in the precision of u (half precision is computed in single).

    Gradients need all poles inside the unit circle or on it, those of silent modes too: their states are computed.
    """
    h, n = lam.shape
    expect("s4d", w=(w, (h, n)), skip=(skip, (h,)), u=(u, (*u.shape[:2], h)))
    if u.dtype not in (torch.float32, torch.float64):
        return s4d(lam, w, skip.float(), u.float()).to(u.dtype)
    if n == 0 or u.shape[1] == 0:
        return u * skip.to(u.dtype)
    on_cpu = u.device.type == "cpu" and not forward_mode()
    by_scan = on_cpu and (torch.compiler.is_compiling() or scan_is_faster(n, *u.shape[:2]))  # a length may be symbolic
    return s4d_scan(lam, w, skip, u) if by_scan else s4d_fft(lam, w, skip, u)


def scan_is_faster(modes: int, batch: int, length: int) -> bool:
    """b N <= KERNEL_COST N + FFT_COST b log2(2L): always for N <= FFT_COST log2(2L), whatever the batch."""
    fft = FFT_COST * math.log2(2 * length)
    return modes <= fft or batch * modes <= KERNEL_COST * modes + batch * fft


def s4d_fft(lam: Tensor, w: Tensor, skip: Tensor, u: Tensor) -> Tensor:
    """`s4d` by convolution."""
    return convolve(u, convolution_kernel(lam, w, u.shape[1]).to(u.dtype)) + u * skip.to(u.dtype)


def s4d_scan(lam: Tensor, w: Tensor, skip: Tensor, u: Tensor) -> Tensor:
    """`s4d` by recurrence."""
    parts = (lam.real, lam.imag, w.real, w.imag, skip)
    y: Tensor = _scan(*(part.to(u.dtype) for part in parts), u)
    return y


def can_scan_packed(modes: int, u: Tensor) -> bool:
    """Whether `s4d` of an input without gradients would be `scan_packed` of the same modes."""
    plain = is_ordinary(u) and u.dtype in (torch.float32, torch.float64)
    return plain and modes > 0 and u.shape[1] > 0 and scan_is_faster(modes, *u.shape[:2])


def packed_modes(lam: Tensor, w: Tensor, dtype: torch.dtype) -> Packed:
    """The modes that are not silent, for `scan_packed`."""
    from aireprune.kernels.numba.lanes import lane_count

    parts = tuple(part.detach().to(dtype).numpy() for part in (lam.real, lam.imag, w.real, w.imag))
    return pack(parts, lane_count(parts[0].dtype), drop_silent=True)


def scan_packed(modes: Packed, skip: Tensor, u: Tensor) -> Tensor:
    """`s4d` by recurrence, without gradients, of modes that are packed already."""
    from aireprune.kernels.numba.s4d import scan

    expect("s4d", skip=(skip, (len(modes.row),)), u=(u, (*u.shape[:2], len(modes.row))))
    u, y = u.detach().contiguous(), torch.empty(u.shape, dtype=u.dtype)
    gain, jobs = skip.detach().to(u.dtype).numpy(), _jobs(modes, len(u))
    scan(modes.params, modes.start, modes.channel, modes.run, gain, u.numpy(), y.numpy(), jobs)
    return y


def s4d_reference(lam: Tensor, w: Tensor, skip: Tensor, u: Tensor) -> Tensor:
    """`s4d` step by step, for tests."""
    x = torch.zeros(u.shape[0], *lam.shape, dtype=lam.dtype)
    out = []
    for u_t in u.unbind(1):
        x = lam * x + u_t[..., None]
        out.append((w * x).real.sum(-1) + skip * u_t)
    return torch.stack(out, dim=1)


def powers(lam: Tensor, count: int) -> Tensor:
    """lam^0 .. lam^(count - 1) on a new last axis, by doubling."""
    out, factor = torch.ones_like(lam)[..., None], lam[..., None]
    while out.shape[-1] < count:
        out = torch.cat([out, out * factor], dim=-1)
        factor = factor * factor
    return out[..., :count]


def convolution_kernel(lam: Tensor, w: Tensor, length: int) -> Tensor:
    """K_l = Re sum_j w_j lam_j^l, (H, L), without an (H, N, L) array.

    With l = T k + i, K_{Tk+i} = Re sum_j (w_j lam_j^{Tk}) lam_j^i is a matrix product of about sqrt(L) giant steps with
    T = sqrt(L) baby steps. The powers are taken in double precision, so phases stay accurate to the end of the kernel.
    """
    real = w.real.dtype
    lam, w = lam.to(torch.complex128), w.to(torch.complex128)
    t = 1 << max(0, math.ceil(math.log2(max(length, 1)) / 2))
    baby = powers(lam, t)
    giant = powers(baby[..., -1] * lam, -(-length // t)) * w[..., None]
    left = torch.cat([giant.real, -giant.imag], dim=1).to(real)  # (H, 2N, L/T)
    right = torch.cat([baby.real, baby.imag], dim=1).to(real)  # (H, 2N, T)
    out: Tensor = left.transpose(1, 2) @ right
    return out.flatten(1)[:, :length]


def convolve(u: Tensor, k: Tensor) -> Tensor:
    """Causal convolution along time: u (b, L, H), k (H, L). Padding to 2L keeps the end from wrapping to the start."""
    length = u.shape[1]
    spectrum: Tensor = torch.fft.rfft(u.transpose(1, 2), n=2 * length) * torch.fft.rfft(k, n=2 * length)
    y: Tensor = torch.fft.irfft(spectrum, n=2 * length)[..., :length]
    return y.transpose(1, 2)


@dataclass(frozen=True)
class Packed:
    """Modes in the order of the numba kernels (`aireprune.kernels.numba.s4d`)."""

    params: np.ndarray  # (rows, 4, W)
    start: np.ndarray  # (groups + 1,)
    channel: np.ndarray  # (groups, W)
    run: np.ndarray  # (groups,)
    row: np.ndarray  # (H, N)  where each mode went
    lane: np.ndarray  # (H, 1)

    @property
    def order(self) -> Tensor:
        """The channels, (H,), in the order of the lanes."""
        return torch.from_numpy(self.channel.ravel()[: len(self.row)].astype(np.int64))


def pack(parts: tuple[np.ndarray, ...], lanes: int, drop_silent: bool) -> Packed:
    """Pack Re lam, Im lam, Re w, Im w (H, N); drop_silent leaves out those with w = 0.

    Channels are sorted by how many modes they hold, or keep their order where sorting would cost more than it saves.
    """
    from aireprune.kernels.numba.s4d import place_modes

    h, n = parts[0].shape
    alive = (parts[2] != 0) | (parts[3] != 0) if drop_silent else np.ones((h, n), bool)
    count = alive.sum(axis=1)
    groups = -(-h // lanes)

    def heights(order: np.ndarray) -> np.ndarray:
        """Mode rows of every group: as many as its largest channel holds."""
        return np.maximum.reduceat(count[order], np.arange(0, h, lanes))

    order, by_count = np.arange(h), np.argsort(-count, kind="stable")
    if (heights(order) - heights(by_count)).sum() > GATHER_ROWS * groups:
        order = by_count
    channel = np.zeros(groups * lanes, np.uintp)  # unsigned: numba need not look for negative indices
    channel[:h] = order
    start = np.concatenate([[0], np.cumsum(heights(order))])
    place = np.empty(h, int)
    place[order] = np.arange(h)
    params, row = np.zeros((start[-1], 4, lanes), parts[0].dtype), np.zeros((h, n), int)
    place_modes(*parts, alive, place, start, params, row)
    lane = (place % lanes)[:, None]
    channel = channel.reshape(groups, lanes)
    run = (np.diff(channel.astype(int), axis=1) == 1).all(axis=1)
    return Packed(params, start, channel, run, row, lane)


def _packed(*tensors: Tensor, drop_silent: bool) -> tuple[Packed, int, ModuleType]:
    """The modes packed, how many jobs to make of one sequence, and the module of kernels."""
    from aireprune.kernels.numba import s4d as numba_s4d
    from aireprune.kernels.numba.lanes import lane_count

    *parts, u = (tensor.detach().numpy() for tensor in tensors)
    packed = pack(tuple(parts), lane_count(u.dtype), drop_silent)
    return packed, _jobs(packed, len(u)), numba_s4d


def _jobs(packed: Packed, batch: int) -> int:
    from aireprune.kernels.numba.compile import threads

    enough = 2 * threads()
    return 1 if batch >= enough else min(len(packed.channel), -(-enough // max(batch, 1)))


@operator("s4d_scan")
def _scan(lam_re: Tensor, lam_im: Tensor, w_re: Tensor, w_im: Tensor, skip: Tensor, u: Tensor) -> Tensor:
    u, y = u.detach().contiguous(), torch.empty(u.shape, dtype=u.dtype)
    p, jobs, kernels = _packed(lam_re, lam_im, w_re, w_im, u, drop_silent=True)
    kernels.scan(p.params, p.start, p.channel, p.run, skip.detach().numpy(), u.numpy(), y.numpy(), jobs)
    return y


@_scan.register_fake
def _(lam_re: Tensor, lam_im: Tensor, w_re: Tensor, w_im: Tensor, skip: Tensor, u: Tensor) -> Tensor:
    return torch.empty_like(u, memory_format=torch.contiguous_format)


@operator("s4d_scan_backward", final=True)
def _scan_backward(
    lam_re: Tensor, lam_im: Tensor, w_re: Tensor, w_im: Tensor, skip: Tensor, u: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """du, which is the scan of g against time; (4, H, N), Re and Im of sum g conj(x) and of sum g conj(dx/dlam); and (H,),
    sum g u."""
    u, g, du = u.detach().contiguous(), g.detach().contiguous(), torch.empty(u.shape, dtype=u.dtype)
    p, jobs, kernels = _packed(lam_re, lam_im, w_re, w_im, u, drop_silent=False)
    sums, gain = np.empty((len(u), *p.params.shape), p.params.dtype), skip.detach().numpy()
    of_skip = np.zeros((len(u), *p.channel.shape), p.params.dtype)
    kernels.adjoint(p.params, p.start, p.channel, p.run, gain, u.numpy(), g.numpy(), du.numpy(), sums, of_skip, jobs)
    total, weights = sums.sum(axis=0), torch.from_numpy(of_skip.sum(axis=0).ravel()[: len(gain)])
    of_modes = torch.from_numpy(np.stack([total[p.row, part, p.lane] for part in range(4)]))
    return du, of_modes, torch.empty_like(weights).scatter_(0, p.order, weights)


@_scan_backward.register_fake
def _(
    lam_re: Tensor, lam_im: Tensor, w_re: Tensor, w_im: Tensor, skip: Tensor, u: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    du = torch.empty_like(u, memory_format=torch.contiguous_format)
    return du, u.new_empty(4, *lam_re.shape), u.new_empty(len(lam_re))


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
    lam_re, lam_im, w_re, w_im, skip, u = ctx.saved_tensors
    du, (ar, ai, zr, zi), d_skip = _scan_backward(lam_re, lam_im, w_re, w_im, skip, u, g)
    # dL/dw = sum g conj(x), dL/dlam = conj(w) sum g conj(dx/dlam)
    return w_re * zr + w_im * zi, w_re * zi - w_im * zr, ar, ai, d_skip, du


_scan.register_autograd(_backward, setup_context=_save_for_backward)
