"""GGUF files are read back as the model that they were written from, and never written."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_models import transformers_model

import aireprune
from aireprune.errors import AireError
from aireprune.files import open_checkpoint

pytest.importorskip("gguf", reason="gguf is not installed (pip install 'aireprune[gguf]')")
pytest.importorskip("transformers")
SIZES: dict[str, Any] = {"hidden_size": 64, "state_size": 6, "num_hidden_layers": 2}
HEADS: dict[str, Any] = {"num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8}


@pytest.fixture(params=["Mamba", "Mamba2"])
def made(request: Any, tmp_path: Path) -> tuple[Any, Path]:
    model = transformers_model(request.param, **SIZES, **(HEADS if request.param == "Mamba2" else {}))
    aireprune.export(model, tmp_path / "model.gguf")
    return model, tmp_path / "model.gguf"


def test_the_tensors_of_the_model(made: tuple[Any, Path]) -> None:
    model, path = made
    checkpoint, weights = open_checkpoint(path), model.state_dict()
    assert set(checkpoint.shapes) <= set(weights)
    assert {name for name in weights if "mixer" in name} <= set(checkpoint.shapes)
    for name in checkpoint.shapes:
        assert checkpoint.shapes[name] == tuple(weights[name].shape), name
        np.testing.assert_allclose(checkpoint[name], weights[name].numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


def test_inspected_as_the_model_is(made: tuple[Any, Path]) -> None:
    model, path = made
    full, read = aireprune.inspect(model), aireprune.inspect(path)
    assert [layer.states for layer in read.layers] == [layer.states for layer in full.layers]
    energies = [[layer.energy_share for layer in one.layers] for one in (full, read)]
    np.testing.assert_allclose(*energies, rtol=1e-4)


@pytest.mark.parametrize("weights", ["f16", "q8_0"])
def test_halved_and_quantised(tmp_path: Path, weights: str) -> None:
    model = transformers_model("Mamba", **SIZES)
    aireprune.export(model, tmp_path / "model.gguf", weights=weights)
    read = open_checkpoint(tmp_path / "model.gguf")["backbone.layers.0.mixer.in_proj.weight"]
    expected = model.state_dict()["backbone.layers.0.mixer.in_proj.weight"].numpy()
    assert 0 < np.abs(read - expected).max() < 0.01 * np.abs(expected).max()


def test_not_changed(made: tuple[Any, Path], tmp_path: Path) -> None:
    with pytest.raises(AireError, match="is a GGUF file, which can be inspected and scored but not changed"):
        aireprune.prune_file(made[1], tmp_path / "out.gguf", ratio=0.5)
    with pytest.raises(AireError, match="not changed"):
        aireprune.load(made[1])
    assert not (tmp_path / "out.gguf").exists()


def test_cut_off_anywhere(made: tuple[Any, Path], tmp_path: Path) -> None:
    data = made[1].read_bytes()
    for length in (8, 20, 40, 200, 1000, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.gguf").write_bytes(data[:length])
        with pytest.raises(AireError, match=r"damaged or truncated|cut off|missing"):
            aireprune.inspect(tmp_path / "cut.gguf")


def test_other_architectures_and_claims(tmp_path: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def file(name: str, count: int = 0, version: int = 3) -> bytes:
        field = text("general.architecture") + struct.pack("<I", 8) + text(name)
        return b"GGUF" + struct.pack("<IQQ", version, count, 1) + field

    for content, sentence in (
        (file("llama"), "architecture 'llama'; those of mamba and mamba2 are read"),
        (file("mamba", 1 << 60), "damaged or truncated .* entries"),
        (file("mamba", version=1), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62), "a text of"),
    ):
        (tmp_path / "x.gguf").write_bytes(content)
        with pytest.raises(AireError, match=sentence):
            open_checkpoint(tmp_path / "x.gguf")
