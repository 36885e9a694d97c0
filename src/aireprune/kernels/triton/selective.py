# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Triton kernel of the selective scan (Mamba-1), for CUDA tensors that need no gradient.

A program takes CHANNELS channels of one sequence through time, a tile (CHANNELS, STATES) of the state in registers.
STATES is a power of two, as Triton wants it, but the states need not fit one tile: further tiles are further launches
that add to y, and the tile is chosen so that few of its columns are empty (`tile_width`). Channels and states are masked
at their ends; nothing is padded in memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from aireprune.kernels.selective import _selective_scan

CHANNELS = 32
TILES = (1, 2, 4, 8, 16)
LAUNCH = 2  # what a launch costs by itself (steps, gate, memory), in states


def tile_width(states: int) -> int:
    """The tile that costs least: its launches, each with all its columns. 17 states take three tiles of 8, not one of 32."""
    return min(TILES, key=lambda width: (triton.cdiv(states, width) * (width + LAUNCH), -width))


@triton.jit
def _forward(
    x, dt, A, B, C, D, bias, z, h, y, length, channels, states, first,
    z_row, FIRST: tl.constexpr, GATED: tl.constexpr, CHANNELS: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    """States first .. first + STATES of y; FIRST starts y with D x, GATED ends it with silu(z).

    x, dt, y (b, L, D); z (b, L, D) with z_row elements from one step to the next; B, C (b, L, N); A (D, N); h (b, D, N).
    """
    sequence = tl.program_id(1)
    c = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    n = first + tl.arange(0, STATES)
    here, held = c < channels, n < states
    both = here[:, None] & held[None, :]
    pole = tl.load(A + c[:, None] * states + n[None, :], mask=both, other=0.0)
    place = h + (sequence * channels + c[:, None]) * states + n[None, :]
    state = tl.load(place, mask=both, other=0.0)
    skip, shift = tl.load(D + c, mask=here, other=0.0), tl.load(bias + c, mask=here, other=0.0)
    for t in range(length):
        row = (sequence * length + t).to(tl.int64)
        at = row * channels + c
        raw, u = tl.load(dt + at, mask=here, other=0.0) + shift, tl.load(x + at, mask=here, other=0.0)
        delta = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
        into = tl.load(B + row * states + n, mask=held, other=0.0)
        out = tl.load(C + row * states + n, mask=held, other=0.0)
        state = tl.exp(delta[:, None] * pole) * state + (delta * u)[:, None] * into[None, :]
        total = tl.sum(state * out[None, :], axis=1)
        total += skip * u if FIRST else tl.load(y + at, mask=here, other=0.0)
        if GATED:
            gate = tl.load(z + row * z_row + c, mask=here, other=0.0)
            total *= gate / (1.0 + tl.exp(-gate))
        tl.store(y + at, total, mask=here)
    tl.store(place, state, mask=both)


def triton_selective_scan(
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
    """The CUDA implementation of `aireprune::selective_scan`."""
    batch, length, channels = x.shape
    n = A.shape[1]
    x, dt, A, B, C, D, dt_bias = (t.contiguous() for t in (x, dt, A, B, C, D, dt_bias))
    if z is not None and not (z.stride(2) == 1 and z.stride(0) == length * z.stride(1)):
        z = z.contiguous()
    state, y = initial.clone(memory_format=torch.contiguous_format), torch.empty_like(x)
    width = tile_width(n)
    grid = (triton.cdiv(channels, CHANNELS), batch)
    starts = range(0, max(n, 1), width)
    if y.numel():
        for first in starts:
            gated = z is not None and first == starts[-1]
            _forward[grid](
                x, dt, A, B, C, D, dt_bias, z if gated else x, state, y, length, channels, n, first,
                z.stride(1) if gated and z is not None else channels,
                FIRST=first == 0, GATED=gated, CHANNELS=CHANNELS, STATES=width,
            )  # fmt: skip
    return y, state


_selective_scan.register_kernel("cuda")(triton_selective_scan)
