"""Mamba: the scan from 16 states to 4, the mixer against its four matrix products, whole transformers models.

Weights are random. Everything that is compared takes turns within one run.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.kernels.selective import scan_into
from aireprune.models.accelerate import accelerate
from aireprune.models.mamba import MambaLayer, MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig

Runs = Mapping[str, Callable[[], object]]


def scan_runs(batch: int, length: int, channels: int, states: tuple[int, ...]) -> Runs:
    """The gated selective scan, a run for each number of states; y takes the place of dt, as in the mixer.

    B and D are small, so that y stays bounded although every run takes the last one's for its dt.
    """
    random = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    x, dt, z = (draw(batch, length, channels) for _ in range(3))
    D, bias = 0.01 * draw(channels), draw(channels) - 4

    def run(n: int) -> Callable[[], None]:
        A = -torch.arange(1.0, n + 1).expand(channels, n)
        B, C, state = 0.01 * draw(batch, length, n), draw(batch, length, n), torch.zeros(batch, n, channels)
        return lambda: scan_into(x, dt, A, B, C, D, bias, z, state, dt)

    return {str(n): run(n) for n in states}


def mixer_runs(batch: int, length: int, d_model: int, states: tuple[int, ...]) -> Runs:
    """A whole mixer, a run for each number of states, and the four matrix products of the one with the most."""
    u = torch.randn(batch, length, d_model, generator=torch.Generator().manual_seed(0))
    runs: dict[str, Callable[[], object]] = {}
    for n in states:
        layer = initialize(MambaModel(MambaConfig(1, 1, d_model, 1, d_state=n))).layers[0]
        runs[str(n)] = partial(layer, u)
        if n == max(states):
            assert isinstance(layer, MambaLayer)
            runs["products"] = _products(layer, u)
    return runs


def _products(layer: MambaLayer, u: Tensor) -> Callable[[], object]:
    wide = torch.randn(*u.shape[:2], layer.A_log.shape[0], generator=torch.Generator().manual_seed(1))

    def run() -> None:
        layer.in_proj(u)
        F.linear(layer.x_proj(wide)[..., : layer.rank], layer.dt_proj.weight)
        layer.out_proj(wide)

    return run


STATES = {"mamba": 16, "mamba2": 128}  # of the 130M models


def transformers_model(kind: str, layers: int, states: int | None = None) -> Any:
    """transformers' Mamba or Mamba-2 in the shape of the 130M models, or with so many states."""
    import transformers

    torch.manual_seed(0)
    states = STATES[kind] if states is None else states
    if kind == "mamba":
        small = transformers.MambaConfig(num_hidden_layers=layers, state_size=states)
        return transformers.MambaForCausalLM(small).eval()
    config = transformers.Mamba2Config(
        hidden_size=768,
        num_hidden_layers=layers,
        num_heads=24,
        head_dim=64,
        n_groups=1,
        state_size=states,
        vocab_size=50288,
    )
    return transformers.Mamba2ForCausalLM(config).eval()


def model_runs(kind: str, layers: int, length: int) -> dict[str, Runs]:
    """Prefill and one step of decoding, stock and accelerated, on the same weights."""
    stock = transformers_model(kind, layers)
    shared = {id(tensor): tensor for tensor in (*stock.parameters(), *stock.buffers())}
    fast = accelerate(copy.deepcopy(stock, shared))
    tokens = torch.randint(0, 1000, (1, length), generator=torch.Generator().manual_seed(0))

    def decode(model: nn.Module) -> Callable[[], object]:
        cache = model(tokens[:, :8], use_cache=True).cache_params
        return lambda: model(tokens[:, :1], use_cache=True, cache_params=cache)

    both = {"stock": stock, "accelerated": fast}
    return {
        "prefill": {name: partial(model, tokens, use_cache=False) for name, model in both.items()},
        "decode": {name: decode(model) for name, model in both.items()},
    }


def bench_mamba(
    batch: int, length: int, widths: tuple[int, ...], layers: int, repeats: int, model_repeats: int
) -> dict[str, Any]:
    """Median seconds, and ratios as (median, lower quartile, upper quartile) over the rounds."""
    if layers and importlib.util.find_spec("transformers") is None:
        raise AireError(
            "The whole models need transformers: pip install 'aireprune[hf]', or leave them out with layers=0."
        )
    result: dict[str, Any] = {"batch": batch, "length": length, "layers": layers, "mixer": {}, "model": {}}
    with torch.inference_mode():
        times = take_turns(scan_runs(batch, length, 2 * 768, (16, 8, 4, 1)), 40 * repeats)  # milliseconds each
        result["scan"] = {"seconds": medians(times), "16 to 4": speedup(times["16"], times["4"])}
        for width in widths:
            times = take_turns(mixer_runs(batch, length, width, (16, 4)), repeats)
            result["mixer"][str(width)] = {
                "seconds": medians(times),
                "16 to products": speedup(times["16"], times["products"]),
                "16 to 4": speedup(times["16"], times["4"]),
            }
    with torch.no_grad():  # caches are written in place
        for kind in ("mamba", "mamba2") if layers else ():
            for what, runs in model_runs(kind, layers, length).items():
                times = take_turns(runs, model_repeats if what == "prefill" else 4 * repeats)
                result["model"][f"{kind} {what}"] = {
                    "seconds": medians(times),
                    "stock to accelerated": speedup(times["stock"], times["accelerated"]),
                }
    return result
