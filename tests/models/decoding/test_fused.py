"""The kernels of decoding give the model's logits: any sizes, groups, biases, projections and number of parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from foreign_models import transformers_model
from torch import nn

from aireprune.families.mamba2 import PROJECTIONS
from aireprune.kernels.decode import rounded
from aireprune.kernels.numba.decode_codes import BLOCK
from aireprune.models.accelerate import accelerate
from aireprune.models.decoding.fused import FusedDecoder, can_fuse, make_program
from aireprune.models.editing import project_module

TOKENS = torch.randint(1, 40, (1, 17), generator=torch.Generator().manual_seed(3))
HEADS = {"state_size": 6, "num_heads": 8, "head_dim": 8, "chunk_size": 8}


def projected() -> nn.Module:
    model = transformers_model("Mamba2", n_groups=2, **HEADS)
    project_module(model, [3, 4, 2])
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith(PROJECTIONS):
                parameter.copy_(torch.randn_like(parameter))
    return accelerate(model)


MODELS = {
    "mamba": lambda: transformers_model("Mamba", state_size=5),
    "mamba, wide": lambda: transformers_model("Mamba", state_size=4, hidden_size=104, use_bias=True),
    "mamba, no bias": lambda: transformers_model("Mamba", state_size=1, use_conv_bias=False, conv_kernel=2),
    "mamba2, a group": lambda: transformers_model("Mamba2", n_groups=1, **HEADS),
    "mamba2, groups": lambda: transformers_model("Mamba2", n_groups=4, use_bias=True, **HEADS),
    "mamba2, wide": lambda: transformers_model(
        "Mamba2", hidden_size=128, n_groups=1, **{**HEADS, "num_heads": 4, "head_dim": 64}
    ),
    "mamba2, projected": projected,
}


def decoded(model: nn.Module, weights: str, parts: int) -> tuple[torch.Tensor, FusedDecoder]:
    """Logits of the last tokens one by one, after the others were read at once."""
    program = make_program(model, weights)
    program.model["parts"] *= parts
    decoder = FusedDecoder(model, program)
    decoder.prefill(TOKENS[:, :5])
    return torch.cat([decoder.step(TOKENS[:, at]).clone() for at in range(5, TOKENS.shape[1])]), decoder


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_logits(name: str, parts: int) -> None:
    model: Any = MODELS[name]()
    assert can_fuse(model, "float32")
    with torch.no_grad():
        exact = model(TOKENS).logits[0, 5:]
    scale = float(exact.abs().max())
    found, decoder = decoded(model, "float32", parts)
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-4 * scale)
    assert decoder.logit_error is None
    rounded, decoder = decoded(model, "int8", parts)
    assert decoder.logit_error is not None
    assert 0 < decoder.logit_error < 0.2
    assert 0 < float((rounded - exact).abs().max()) < 0.2 * scale


@pytest.mark.parametrize("name", ["mamba, wide", "mamba2, wide"])
def test_in_8_bits_the_kernels_compute_what_rounded_weights_give(name: str) -> None:
    """The model itself, its matrices replaced by what 8 bits say."""
    model: Any = MODELS[name]()
    found, _ = decoded(model, "int8", 2)
    matrices = ("in_proj.weight", "x_proj.weight", "out_proj.weight", "embeddings.weight", "lm_head.weight")
    with torch.no_grad():
        cache = model(TOKENS[:, :5], use_cache=True).cache_params
        for weight in {id(p): p for key, p in model.named_parameters() if key.endswith(matrices)}.values():
            stored, scale = rounded(weight)
            weight.copy_(stored * scale.repeat_interleave(BLOCK, 1)[:, : weight.shape[1]])
        expected = [
            model(TOKENS[:, at : at + 1], use_cache=True, cache_params=cache).logits[:, 0]
            for at in range(5, TOKENS.shape[1])
        ]
    exact = torch.cat(expected)
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-4 * float(exact.abs().max()))


def test_what_the_kernels_do_not_compute() -> None:
    model: Any = MODELS["mamba"]()
    assert not can_fuse(model.double(), "int8")
    hooked: Any = MODELS["mamba"]()
    hooked.backbone.layers[0].register_forward_hook(lambda *_: None)
    assert not can_fuse(hooked, "float32")
    changed: Any = MODELS["mamba"]()
    changed.backbone.layers[1].mixer.activation = "gelu"
    assert not can_fuse(changed, "float32")
    assert not can_fuse(nn.Linear(3, 3), "float32")
