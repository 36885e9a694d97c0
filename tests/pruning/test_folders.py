"""Hugging Face folders calibrated layer by layer: as the model in memory, interrupted or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_models import MODELS
from safetensors.numpy import load_file

import aireprune
from aireprune import AireError
from aireprune.calibration import selective
from aireprune.pruning import folders

TOKENS = np.random.default_rng(0).integers(1, 40, (24, 20))
CHOICES: dict[str, Any] = {"ratio": 0.5, "method": "aire", "layout": "uniform", "calibrate": TOKENS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    MODELS["mamba"]().save_pretrained(tmp_path / "hf")  # type: ignore[operator]
    return tmp_path / "hf"


def weights(path: Path) -> dict[str, np.ndarray]:
    return dict(load_file(path / "model.safetensors"))


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_an_interrupted_run_goes_on_where_it_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, whole = folder.parent / "out", folder.parent / "whole"
    aireprune.prune_file(folder, whole, **CHOICES)
    fits, fit = [0], selective.GateMoments.add

    def dies(self: Any, *given: Any) -> None:
        fits[0] += 1
        if fits[0] == 6:  # in the second layer
            raise KeyboardInterrupt
        fit(self, *given)

    monkeypatch.setattr(selective.GateMoments, "add", dies)
    with pytest.raises(KeyboardInterrupt):
        aireprune.prune_file(folder, out, **CHOICES)
    assert not out.exists()
    kept = folder.parent / ".out.calibration"
    assert len(list(kept.glob("*.safetensors"))) == 1
    before = fits[0]
    aireprune.prune_file(folder, out, **CHOICES)
    assert same(weights(out), weights(whole))
    assert fits[0] - before == 2 * 4, "two of three layers were left, with four batches"
    assert not kept.exists()


def test_what_belongs_to_another_job_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*given: Any) -> None:
        raise KeyboardInterrupt

    out = folder.parent / "out"
    with monkeypatch.context() as patch:
        patch.setattr(folders, "measure_fit", dies)
        with pytest.raises(KeyboardInterrupt):
            aireprune.prune_file(folder, out, **CHOICES)
    other = {**CHOICES, "calibrate": TOKENS[::-1].copy()}
    aireprune.prune_file(folder, out, **other)
    aireprune.prune_file(folder, folder.parent / "fresh", **other)
    assert same(weights(out), weights(folder.parent / "fresh"))


def test_a_folder_whose_library_renames_tensors_goes_through_memory(tmp_path: Path) -> None:
    full = MODELS["nemotron_h"]()
    full.save_pretrained(tmp_path / "hf")  # type: ignore[operator]
    aireprune.prune_file(tmp_path / "hf", tmp_path / "out", **CHOICES)
    loaded = aireprune.load(tmp_path / "out")
    wanted = aireprune.prune(full, **CHOICES)
    for name, value in wanted.state_dict().items():
        np.testing.assert_allclose(loaded.state_dict()[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [(TOKENS + 40, "knows only 40"), (np.zeros((8, 20)), "all the same number"), (TOKENS / 50, "cannot take")],
)
def test_inputs_that_do_not_fit_leave_nothing(folder: Path, tokens: np.ndarray, message: str) -> None:
    with pytest.raises(AireError, match=message):
        aireprune.prune_file(folder, folder.parent / "out", **{**CHOICES, "calibrate": tokens})
    assert [path.name for path in folder.parent.iterdir()] == ["hf"]
