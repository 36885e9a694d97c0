"""aire convert: a folder for transformers, or one sentence about why not."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from json_schema import check

import aireprune
from aireprune.models.mamba import MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig

pytest.importorskip("transformers")


@pytest.fixture
def language_model(tmp_path):
    torch.manual_seed(0)
    sizes = {"d_input": 256, "d_output": 256, "d_model": 8, "layers": 2, "mode": "tokens"}
    aireprune.save(initialize(MambaModel(MambaConfig(**sizes)), 0), tmp_path / "own")
    return tmp_path / "own"


def test_a_head_that_does_not_fit_is_refused_until_there_are_inputs_to_fit_another_one(aire, language_model, tmp_path):
    code, _, err = aire("convert", language_model, "-o", tmp_path / "out")
    assert code == 1
    assert "final_norm 'layer'" in err
    assert "--calibrate" in err
    assert not (tmp_path / "out").exists()
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (16, 40)))
    code, out, err = aire(
        "convert", language_model, "-o", tmp_path / "out", "--calibrate", tmp_path / "x.npy", "--json"
    )
    assert code == 0
    assert "fitted to the logits" in err
    assert json.loads(out)["fitted_head"]["divergence"] < 0.5
    check("convert", json.loads(out))
    x = torch.arange(40)[None]
    with torch.no_grad():
        own, converted = (aireprune.load(tmp_path / name)(x) for name in ("own", "out"))
    assert float((own.softmax(-1) - converted.logits.softmax(-1)).abs().max()) < 0.05


def test_a_hugging_face_folder_is_one_already(aire, language_model, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (16, 40)))
    assert aire("convert", language_model, "-o", tmp_path / "out", "--calibrate", tmp_path / "x.npy")[0] == 0
    code, _, err = aire("convert", tmp_path / "out", "-o", tmp_path / "again")
    assert code == 1
    assert "is a Hugging Face folder already" in err


def test_nothing_is_replaced_unasked(aire, language_model, tmp_path):
    (tmp_path / "out").mkdir()
    code, _, err = aire("convert", language_model, "-o", tmp_path / "out")
    assert code == 1
    assert "exists already" in err


def test_other_families_are_refused(aire, s5_file, tmp_path):
    code, _, err = aire("convert", s5_file, "-o", tmp_path / "out")
    assert code == 1
    assert "S5Model" in err
