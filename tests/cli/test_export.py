"""aire export: what it prints, and one sentence about what it refuses."""

from __future__ import annotations

import json

import pytest
import small_models

import aireprune

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'aireprune[onnx]')")


@pytest.fixture
def folder(tmp_path):
    aireprune.save(small_models.s5(), tmp_path / "model")
    return tmp_path / "model"


def test_onnx(aire, folder, tmp_path):
    code, out, err = aire("export", folder, "--to", "onnx", "-o", tmp_path / "model.onnx")
    assert (code, err) == (0, "")
    assert "states per layer 8, 8" in out
    assert "in onnxruntime its outputs are the model's to" in out
    code, out, _ = aire("export", folder, "-o", tmp_path / "step.onnx", "--step", "--json")
    assert code == 0
    assert json.loads(out)["difference"] < 1e-4


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        (("--to", "coreml"), "There is no --to coreml."),
        (("--opset", "7"), "--opset 7 is not one"),
        (("--weights", "f16"), "--weights is for --to gguf"),
    ],
)
def test_refusals_name_flags(aire, folder, tmp_path, arguments, mention):
    code, _, err = aire("export", folder, "-o", tmp_path / "out.onnx", *arguments)
    assert code == 1
    assert mention in err
    assert not (tmp_path / "out.onnx").exists()


def test_bidirectional_models_are_not_streamed(aire, tmp_path):
    aireprune.save(small_models.s5(bidirectional=True), tmp_path / "model")
    code, _, err = aire("export", tmp_path / "model", "-o", tmp_path / "out.onnx", "--step")
    assert code == 1
    assert "bidirectional" in err
    assert "Leave out --step." in err
