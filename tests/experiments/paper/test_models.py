"""The zoo's models: where they are, and what is done to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aireprune import zoo
from aireprune.experiments.paper.models import SEEDED, ZOO, ZooModel, ablation_request, sweep_request
from aireprune.experiments.paper.seeds import seed_request

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"


def test_where_models_are(tmp_path):
    model = ZooModel("image", "s5")
    assert model.find(zoo.FOLDER) == zoo.FOLDER / "image-s5"
    assert model.find(tmp_path) is None
    assert (model.task("mini"), ZooModel("text", "s5").task("mini")) == ("image", "text-mini")


@pytest.mark.parametrize("model", ZOO["mini"], ids=lambda model: model.name)
def test_kept_sweeps_are_those_that_would_be_done_now(model):
    """So that they are resumed and not refused."""
    kept = json.loads((RESULTS / model.name / "sweep.json").read_text())
    assert {**kept, **sweep_request(model, "mini").to_dict()} == kept
    kept = json.loads((RESULTS / "ablations" / model.name / "sweep.json").read_text())
    length = max(variant["options"].get("horizon", 0) for variant in kept["variants"])
    request = ablation_request(model, "mini", length).to_dict()
    assert json.dumps({**kept, **request}, indent=1) == json.dumps(kept, indent=1)


@pytest.mark.parametrize("model", [model for group in SEEDED["mini"] for model in group], ids=lambda model: model.name)
def test_kept_sweeps_of_seeds_are_those_that_would_be_done_now(model):
    kept = json.loads((RESULTS / "seeds" / model.name / "sweep.json").read_text())
    assert {**kept, **seed_request(model, "mini").to_dict()} == kept
