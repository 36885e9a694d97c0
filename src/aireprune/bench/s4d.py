"""One S4D layer: our scan against the kernel made by an einsum and convolved by FFT, and against FFT alone.

H 256 channels of 32 stored pairs by default; weights are random and may change with every call, except where the kernel
is said to be cached. Everything that is compared takes turns within one run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.kernels.s4d import convolution_kernel, convolve
from aireprune.models.s4d import S4DLayer, S4DModel, initialize
from aireprune.models.s4d_config import S4DConfig

OURS, KEPT, RAGGED = "ours", "ours, 25 % kept", "ours, 25 % kept, ragged"
EINSUM, CACHED = "einsum and FFT", "FFT, kernel cached"


def make_layer(h: int, pairs: int) -> S4DLayer:
    layer = initialize(S4DModel(S4DConfig(1, 1, h, 2 * pairs, 1))).s4_layers[0]
    assert isinstance(layer, S4DLayer)
    return layer


def ragged_layer(h: int, pairs: int) -> S4DLayer:
    """A quarter of all modes, unevenly over the channels, in the arrays of the full layer: the others are silent."""
    layer = make_layer(h, pairs)
    share = torch.rand(h, 1, generator=torch.Generator().manual_seed(0)) / 2  # a quarter on average
    silent = torch.rand(h, pairs, generator=torch.Generator().manual_seed(1)) > share
    with torch.no_grad():
        layer.kernel.C[silent] = 0
    return layer


def einsum_layer(layer: S4DLayer, u: Tensor) -> Tensor:
    """As the S4 repository's s4d.py does it: the Vandermonde matrix (h, N, L), then FFT."""
    a = -torch.exp(layer.kernel.log_A_real) + 1j * layer.kernel.A_imag
    dt_a = a * torch.exp(layer.kernel.log_dt)[:, None]
    c = torch.view_as_complex(layer.kernel.C) * (torch.exp(dt_a) - 1) / a
    k = 2 * torch.einsum("hn,hnl->hl", c, torch.exp(dt_a[..., None] * torch.arange(u.shape[1]))).real
    return convolve(u, k) + u * layer.D


def layer_runs(batch: int, length: int, h: int, pairs: int) -> dict[str, Callable[[], Tensor]]:
    """u (batch, L, h) through the layer's state space part, from its parameters on."""
    u = torch.randn(batch, length, h, generator=torch.Generator().manual_seed(0))
    layer, kept, ragged = make_layer(h, pairs), make_layer(h, pairs // 4), ragged_layer(h, pairs)
    cached = torch.fft.rfft(convolution_kernel(*layer.kernel.discrete(), length).float(), n=2 * length)

    def fft() -> Tensor:
        spectrum = torch.fft.rfft(u.transpose(1, 2), n=2 * length) * cached
        return torch.fft.irfft(spectrum, n=2 * length)[..., :length].transpose(1, 2) + u * layer.D

    return {
        OURS: lambda: layer.ssm(u),
        KEPT: lambda: kept.ssm(u),
        RAGGED: lambda: ragged.ssm(u),
        CACHED: fft,
        EINSUM: lambda: einsum_layer(layer, u),
    }


def bench_s4d(
    lengths: tuple[int, ...], batches: tuple[int, ...], h: int, pairs: int, repeats: int, einsum_repeats: int
) -> dict[str, Any]:
    """Median seconds, and ratios as (median, lower quartile, upper quartile) over the rounds, per size."""
    sizes = []
    with torch.inference_mode():
        for length in lengths:
            for batch in batches:
                runs = layer_runs(batch, length, h, pairs)
                exact, ours = runs[EINSUM](), runs[OURS]()
                slow = take_turns({name: runs[name] for name in (OURS, EINSUM)}, einsum_repeats)
                times = take_turns({name: run for name, run in runs.items() if name != EINSUM}, repeats)
                sizes.append(
                    {
                        "length": length,
                        "batch": batch,
                        "difference": float((ours - exact).abs().max() / exact.abs().max()),
                        "seconds": medians({**times, EINSUM: slow[EINSUM]}),
                        "einsum to ours": speedup(slow[EINSUM], slow[OURS]),
                        "cached to ours": speedup(times[CACHED], times[OURS]),
                        "cached to kept": speedup(times[CACHED], times[KEPT]),
                        "cached to ragged": speedup(times[CACHED], times[RAGGED]),
                    }
                )
    return {"h": h, "pairs": pairs, "sizes": sizes}
