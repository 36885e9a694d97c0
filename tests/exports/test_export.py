"""The walk: a file appears once it agrees with the model, says what was pruned, and otherwise nothing appears."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import small_models

import aireprune
from aireprune.errors import AireError
from aireprune.exports.outcome import TOLERANCE

onnx = pytest.importorskip("onnx", reason="onnx is not installed (pip install 'aireprune[onnx]')")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'aireprune[onnx]')")


def metadata(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def small_task(path: Path) -> str:
    rng = np.random.default_rng(0)
    parts = {
        f"{part}_x": rng.standard_normal((12, 30, 2)).astype(np.float32) for part in ("train", "validation", "test")
    }
    parts |= {f"{part}_y": np.arange(12) % 3 for part in ("train", "validation", "test")}
    np.savez(path, **parts)
    return str(path)


def test_a_pruned_checkpoint_says_what_was_pruned(tmp_path):
    aireprune.save(small_models.s5(), tmp_path / "full")
    aireprune.prune_file(tmp_path / "full", tmp_path / "small", ratio=0.5)
    done = aireprune.export(tmp_path / "small", tmp_path / "small.onnx")
    assert done.difference is not None
    assert done.difference <= TOLERANCE
    assert sum(done.states) == 8
    told = metadata(tmp_path / "small.onnx")
    plan = json.loads(told["aireprune.plan"])
    assert plan["method"] == "aire"
    assert plan["ratio"] == 0.5
    assert [layer["kept"] for layer in plan["layers"]] == list(done.states)
    assert json.loads(told["aireprune.states"]) == dict(zip(("layers.0.seq", "layers.1.seq"), done.states, strict=True))
    assert told["aireprune.version"]
    aireprune.export(tmp_path / "full", tmp_path / "full.onnx")
    assert "aireprune.plan" not in metadata(tmp_path / "full.onnx")
    assert (tmp_path / "small.onnx").stat().st_size < (tmp_path / "full.onnx").stat().st_size


def test_a_model_in_memory_carries_its_plan_and_names_its_states(tmp_path):
    small = aireprune.prune(small_models.mamba(), ratio=0.5)
    aireprune.export(small, tmp_path / "step.onnx", step=True)
    told = metadata(tmp_path / "step.onnx")
    assert "8 of 16 states" in told["aireprune.pruned"]
    states = json.loads(told["aireprune.step_states"])
    assert states["layers.0.state"] == [12, 4]
    names = [value.name for value in onnx.load(tmp_path / "step.onnx").graph.output]
    assert names == ["logits", *(f"{name}.next" for name in states)]


def test_half_precision_is_exported_in_single(tmp_path):
    model = small_models.mamba().bfloat16()
    assert aireprune.export(model, tmp_path / "model.onnx").difference < TOLERANCE
    assert next(model.parameters()).dtype.itemsize == 2  # the model itself stays as it was


def test_a_file_that_differs_is_not_kept(tmp_path, monkeypatch):
    from aireprune.exports.onnx import chunks

    monkeypatch.setattr(chunks, "from_before", lambda size, reverse=False: np.zeros(size, int))
    with pytest.raises(AireError, match=r"In onnxruntime the file gives other outputs.*was not kept"):
        aireprune.export(small_models.s5(), tmp_path / "new" / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_existing_files_stay_unless_they_may_be_replaced(tmp_path):
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(AireError, match="exists already"):
        aireprune.export(small_models.s5(), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "mine"
    aireprune.export(small_models.s5(), tmp_path / "model.onnx", overwrite=True)
    assert onnx.load(tmp_path / "model.onnx").graph.node


@pytest.mark.parametrize(("suffix", "library"), [("onnx", "onnx"), ("onnx", "onnxruntime"), ("gguf", "gguf")])
def test_a_missing_library_is_named_with_its_extra(suffix, library, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(AireError, match=rf"needs {library}, which is not installed.*'aireprune\[{suffix}\]'"):
        aireprune.export(small_models.s5(), tmp_path / f"model.{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_inputs_of_a_task_are_compared_and_eight_bits_judged_on_it(tmp_path):
    task = small_task(tmp_path / "task.npz")
    model = small_models.s5(h=32)
    done = aireprune.export(model, tmp_path / "model.onnx", task=task)
    assert "examples of" in done.checked
    assert done.judged is None
    done = aireprune.export(model, tmp_path / "int8.onnx", task=task, int8=True)
    assert done.judged is not None
    assert done.judged.examples == 12
    assert done.judged.model == aireprune.evaluate(model, task=task).score.metric.value
    kinds = [node.op_type for node in onnx.load(tmp_path / "int8.onnx").graph.node]
    assert "MatMulInteger" in kinds
    assert metadata(tmp_path / "int8.onnx")["aireprune.int8"] == "projections"
    with pytest.raises(AireError, match="does not fit task"):
        aireprune.export(small_models.s5(d_input=3), tmp_path / "other.onnx", task=task)


def test_a_transformers_model_takes_tokens(tmp_path):
    pytest.importorskip("transformers")
    from foreign_models import MODELS

    with pytest.raises(AireError, match="takes tokens: leave out inputs="):
        aireprune.export(MODELS["mamba"](), tmp_path / "model.onnx", inputs="numbers")
    MODELS["mamba2"]().save_pretrained(tmp_path / "folder")
    done = aireprune.export(tmp_path / "folder", tmp_path / "model.onnx")
    assert done.states == (6, 6, 6)
