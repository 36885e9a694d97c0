"""Models whose weights are read when they are called: the same answers, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from foreign_models import MODELS
from torch import nn

from aireprune.models.huggingface import empty_model
from aireprune.models.streamed import Streamed, UnmatchedNamesError
from aireprune.pruning.source import open_file

TOKENS = torch.randint(1, 40, (2, 16), generator=torch.Generator().manual_seed(0))
RENAMED = ("nemotron_h",)  # its library calls tensors otherwise than its files do


def streamed(folder: Path, capacity: int) -> Streamed:
    source = open_file(folder)
    sizes = [layer.states // layer.groups for layer in source.layers]
    return Streamed(empty_model(source, source.checkpoint, sizes), source.arrays, capacity)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in RENAMED])
@pytest.mark.parametrize("capacity", [0, 2**30])
def test_answers_are_those_of_the_model_in_memory(name: str, capacity: int, tmp_path: Path) -> None:
    full = MODELS[name]()
    full.save_pretrained(tmp_path / "hf")  # type: ignore[operator]
    stream = streamed(tmp_path / "hf", capacity)
    with torch.no_grad(), stream.running():
        found = stream.module(TOKENS, use_cache=False).logits
        there = [parameter for parameter in stream.module.parameters() if not parameter.is_meta]
        assert bool(there) == (capacity > 0) or len(there) < 5, "only what was called last stays"
    torch.testing.assert_close(found, full(TOKENS, use_cache=False).logits, rtol=0, atol=0)
    assert all(parameter.is_meta for parameter in stream.module.parameters())
    assert not any(module._forward_pre_hooks for module in stream.module.modules())


def test_what_is_changed_in_loaded_weights_lasts_until_they_are_given_up(tmp_path: Path) -> None:
    MODELS["mamba"]().save_pretrained(tmp_path / "hf")  # type: ignore[operator]
    stream = streamed(tmp_path / "hf", 0)
    layer = "backbone.layers.0.mixer"
    with torch.no_grad(), stream.running():
        with stream.loaded(layer):
            linear = stream.module.get_submodule(f"{layer}.out_proj")
            assert isinstance(linear, nn.Linear)
            linear.weight.zero_()
            assert not stream.module.get_submodule(layer)(torch.randn(1, 4, 32)).any()
        stream.module(TOKENS, use_cache=False)
        assert stream.module.get_submodule(layer)(torch.randn(1, 4, 32)).any()


def test_files_with_other_names_are_told_apart(tmp_path: Path) -> None:
    MODELS["nemotron_h"]().save_pretrained(tmp_path / "hf")  # type: ignore[operator]
    with pytest.raises(UnmatchedNamesError, match="no tensor"):
        streamed(tmp_path / "hf", 0)
