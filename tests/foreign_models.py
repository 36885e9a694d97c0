"""Small random models of other libraries, plans for them, and decoding through their own caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from aireprune.method.selection import Budget
from aireprune.pruning import planning
from aireprune.pruning.plan import Plan
from aireprune.pruning.request import Request
from aireprune.pruning.source import open_module
from aireprune.pruning.surgery import operate

TINY: dict[str, Any] = {"hidden_size": 32, "vocab_size": 40, "num_hidden_layers": 3, "pad_token_id": 0}
ATTENTION: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32}
HEADS: dict[str, Any] = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 6}


def transformers_model(name: str, **options: Any) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, name + "Config")(**{**TINY, **options})
    model: nn.Module = getattr(transformers, name + "ForCausalLM")(config).eval()
    with torch.no_grad():  # the stock initialisation is too tame to tell states apart
        for key, parameter in model.named_parameters():
            if any(part in key for part in ("x_proj", "in_proj", "conv1d", "layernorm")):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mamba": lambda: transformers_model("Mamba", state_size=6),
    "falcon_mamba": lambda: transformers_model("FalconMamba", state_size=6),
    "jamba": lambda: transformers_model(
        "Jamba", mamba_d_state=6, attn_layer_period=2, attn_layer_offset=1, num_experts=1, mamba_dt_rank=4, **ATTENTION
    ),
    "mamba2": lambda: transformers_model("Mamba2", state_size=6, num_heads=4, head_dim=16, n_groups=2, chunk_size=8),
    "bamba": lambda: transformers_model("Bamba", attn_layer_indices=[1], mamba_chunk_size=8, **ATTENTION, **HEADS),
    "falcon_h1": lambda: transformers_model(
        "FalconH1", mamba_d_ssm=64, mamba_chunk_size=8, ssm_multipliers=[1.0, 0.9, 1.1, 0.8, 1.2], **ATTENTION, **HEADS
    ),
    "zamba2": lambda: transformers_model(
        "Zamba2", mamba_d_state=6, mamba_ngroups=2, n_mamba_heads=4, num_mem_blocks=1, chunk_size=8, use_mem_rope=True,
        layers_block_type=["mamba", "hybrid", "mamba"], **ATTENTION,
    ),
    "nemotron_h": lambda: transformers_model(
        "NemotronH", layers_block_type=["mamba", "attention", "mamba"], ssm_state_size=6, mamba_num_heads=4,
        mamba_head_dim=16, n_groups=2, chunk_size=8, **ATTENTION,
    ),
}  # fmt: skip


def make_plan(model: nn.Module, share: tuple[float, ...] = (0.5, 0.34, 0.67)) -> tuple[list[Any], Plan]:
    """Keep another share of every layer, at random, equally many of each group."""
    source, rng = open_module(model), np.random.default_rng(0)
    layers, chosen = source.layers, []
    plan = planning.make_plan(
        source, Request(budget=Budget(ratio=0.5), method="aire", reduce="truncate", layout="adaptive")
    )
    for number, (layer, planned) in enumerate(zip(layers, plan.layers, strict=True)):
        size = layer.states // layer.groups
        count = round(share[number % len(share)] * size)
        kept = [g * size + j for g in range(layer.groups) for j in np.sort(rng.permutation(size)[:count])]
        chosen.append(replace(planned, kept=tuple(map(int, kept))))
    return layers, replace(plan, layers=tuple(chosen))


def prune_module(
    model: nn.Module, layers: list[Any], plan: Plan, mask: bool = False, padded: bool = False
) -> nn.Module:
    source = open_module(model)
    return source.apply(operate(source, replace(plan, layout="padded") if padded else plan, mask=mask))


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-5 * float(b.abs().max()), rtol=1e-5)


# the stock Bamba, Zamba2 and Nemotron-H differ by 1e-4 between cached and uncached, unpruned: nothing to hold them to
INEXACT_CACHES = ("bamba", "zamba2", "nemotron_h")


def decode(model: Any, tokens: torch.Tensor, prefix: int) -> torch.Tensor:
    """Logits of a prefix at once and of the rest token by token, through the model's own cache."""
    out = model(tokens[:, :prefix], use_cache=True)
    key = "cache_params" if hasattr(out, "cache_params") else "past_key_values"
    logits = [out.logits]
    for t in range(prefix, tokens.shape[1]):
        out = model(tokens[:, t : t + 1], use_cache=True, **{key: out[key]})
        logits.append(out.logits)
    return torch.cat(logits, 1)
