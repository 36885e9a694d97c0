"""Exported files in llama.cpp give the model's logits."""

from __future__ import annotations

import pytest
from foreign_models import transformers_model

import aireprune

pytest.importorskip("gguf", reason="gguf is not installed (pip install 'aireprune[gguf]')")
pytest.importorskip("transformers")
pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: no GGUF file was run in llama.cpp")


@pytest.mark.parametrize("name", ["Mamba", "Mamba2"])
@pytest.mark.parametrize(
    ("weights", "most"), [("f32", 1e-4), ("f16", 1e-2), ("q8_0", 0.3)]
)  # q8_0 rounds activations too
def test_logits(name, weights, most, tmp_path):
    heads = {"num_heads": 8, "head_dim": 16, "n_groups": 2} if name == "Mamba2" else {}
    model = transformers_model(name, vocab_size=300, hidden_size=64, state_size=16, **heads)
    small = aireprune.prune(model, ratio=0.5, layout="uniform")
    done = aireprune.export(small, tmp_path / "model.gguf", weights=weights)
    assert done.difference is not None
    assert done.difference < most
