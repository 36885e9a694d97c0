"""GGUF files hold the model's tensors, sizes and tokenizer; what llama.cpp has no place for is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from foreign_models import transformers_model
from small_tokenizers import byte_pairs, save_tokenizer

import aireprune
from aireprune.errors import AireError

gguf = pytest.importorskip("gguf", reason="gguf is not installed (pip install 'aireprune[gguf]')")
pytest.importorskip("transformers")

SIZES = {"vocab_size": 300, "hidden_size": 64, "state_size": 6, "num_hidden_layers": 2}
HEADS = {"num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8}


def mamba(**changes: Any) -> Any:
    return transformers_model("Mamba", **{**SIZES, **changes})


def mamba2(**changes: Any) -> Any:
    return transformers_model("Mamba2", **{**SIZES, **HEADS, **changes})


def fields(path: Path) -> dict[str, Any]:
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


def stored(path: Path) -> dict[str, np.ndarray]:
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        for tensor in gguf.GGUFReader(path).tensors
    }


def test_mamba(tmp_path):
    model = mamba()
    done = aireprune.export(model, tmp_path / "model.gguf")
    assert done.states == (6, 6)
    found, weights, told = stored(tmp_path / "model.gguf"), model.state_dict(), fields(tmp_path / "model.gguf")
    mixer = "backbone.layers.1.mixer."
    np.testing.assert_array_equal(found["token_embd.weight"], weights["backbone.embeddings.weight"])
    np.testing.assert_array_equal(found["blk.1.ssm_conv1d.weight"], weights[mixer + "conv1d.weight"][:, 0])
    np.testing.assert_allclose(found["blk.1.ssm_a"], -torch.exp(weights[mixer + "A_log"]), rtol=1e-6)
    np.testing.assert_array_equal(found["blk.1.ssm_x.weight"], weights[mixer + "x_proj.weight"])
    np.testing.assert_array_equal(found["blk.1.ssm_dt.bias"], weights[mixer + "dt_proj.bias"])
    assert told["general.architecture"] == "mamba"
    assert [told[f"mamba.ssm.{key}"] for key in ("state_size", "inner_size", "conv_kernel", "time_step_rank")] == [
        *(6, 128, 4, 4)
    ]
    assert told["mamba.block_count"] == 2


def test_mamba2(tmp_path):
    model = mamba2()
    aireprune.export(model, tmp_path / "model.gguf")
    found, told = stored(tmp_path / "model.gguf"), fields(tmp_path / "model.gguf")
    assert found["blk.0.ssm_a"].shape == found["blk.0.ssm_d"].shape == (8, 1)
    assert found["blk.0.ssm_norm.weight"].shape == (2, 64)
    assert found["blk.0.ssm_in.weight"].shape == (2 * 128 + 2 * 2 * 6 + 8, 64)
    assert [told[f"mamba2.ssm.{key}"] for key in ("state_size", "group_count", "time_step_rank")] == [6, 2, 8]


@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_head_is_left_out(tied, tmp_path):
    aireprune.export(mamba(tie_word_embeddings=tied), tmp_path / "model.gguf")
    assert ("output.weight" in stored(tmp_path / "model.gguf")) is not tied


def test_a_convolution_without_bias_gets_zeros(tmp_path):
    aireprune.export(mamba(use_conv_bias=False), tmp_path / "model.gguf")
    assert not stored(tmp_path / "model.gguf")["blk.0.ssm_conv1d.bias"].any()


def test_matrices_in_fewer_bits(tmp_path):
    sizes = {}
    for weights in ("f32", "f16", "q8_0"):
        path = tmp_path / f"{weights}.gguf"
        aireprune.export(mamba(), path, weights=weights)
        sizes[weights] = path.stat().st_size
        kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}
        assert kinds["blk.0.ssm_in.weight"] == weights.upper()
        assert {kinds[f"blk.0.ssm_{name}"] for name in ("a", "d", "dt.weight", "conv1d.weight")} == {"F32"}
    assert sizes["q8_0"] < sizes["f16"] < sizes["f32"]


def test_the_tokenizer_of_a_folder(tmp_path):
    mamba().save_pretrained(tmp_path / "folder")
    save_tokenizer(tmp_path / "folder", 290)
    done = aireprune.export(tmp_path / "folder", tmp_path / "model.gguf")
    assert done.notices == ()
    told, tokenizer = fields(tmp_path / "model.gguf"), byte_pairs(290)
    assert told["tokenizer.ggml.model"] == "gpt2"
    assert told["tokenizer.ggml.pre"] == "gpt-2"
    known = len(tokenizer)
    assert told["tokenizer.ggml.tokens"][:known] == tokenizer.convert_ids_to_tokens(range(known))
    assert len(told["tokenizer.ggml.tokens"]) == 300  # as many as the model has rows
    assert told["tokenizer.ggml.eos_token_id"] == tokenizer.eos_token_id
    assert told["tokenizer.ggml.merges"]


def test_without_a_tokenizer_a_notice_says_so(tmp_path):
    done = aireprune.export(mamba(), tmp_path / "model.gguf")
    assert "no tokenizer" in done.notices[0]
    assert fields(tmp_path / "model.gguf")["mamba.vocab_size"] == 300


def test_a_pruned_folder_of_one_size_says_what_was_pruned(tmp_path):
    mamba().save_pretrained(tmp_path / "folder")
    aireprune.prune_file(tmp_path / "folder", tmp_path / "small", ratio=0.5, layout="uniform")
    done = aireprune.export(tmp_path / "small", tmp_path / "small.gguf")
    assert done.states == (3, 3)
    told = fields(tmp_path / "small.gguf")
    assert told["mamba.ssm.state_size"] == 3
    assert "6 of 12 states" in told["aireprune.pruned"]


def test_layers_of_different_sizes_are_refused(tmp_path):
    mamba().save_pretrained(tmp_path / "folder")
    aireprune.prune_file(tmp_path / "folder", tmp_path / "small", ratio=0.4, layout="adaptive", method="random", seed=1)
    with pytest.raises(AireError, match=r"one size for all of a model.*layout='uniform'"):
        aireprune.export(tmp_path / "small", tmp_path / "out" / "small.gguf")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (small_models.s5, "not a language model of transformers' Mamba"),
        (lambda: transformers_model("FalconMamba", state_size=6), "not a language model of transformers' Mamba"),
        (lambda: mamba(use_bias=True), "biases of its projections"),
        (lambda: mamba(expand=1), "64 channels for a width of 64"),
        (lambda: mamba2(time_step_limit=(0.0, 0.5)), "a limit on its steps"),
    ],
)
def test_what_llama_cpp_has_no_place_for_is_refused(make, message, tmp_path):
    with pytest.raises(AireError, match=message):
        aireprune.export(make(), tmp_path / "model.gguf")
    assert list(tmp_path.iterdir()) == []
