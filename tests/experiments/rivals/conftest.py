"""A tiny S5 and a tiny Mamba-2 in the place of the package's, on random data."""

from __future__ import annotations

from dataclasses import replace

import pytest
import toy_experiments

import aireprune
from aireprune.experiments.rivals import comparisons, run
from aireprune.models.create import new_model
from aireprune.models.mamba2_config import Mamba2Config


@pytest.fixture
def small_models(tmp_path, monkeypatch):
    """Paths by the names of their comparisons."""
    model, task = toy_experiments.classification()
    monkeypatch.setattr(run, "load_task", lambda name: task)
    mamba2 = Mamba2Config(d_input=1, d_output=3, d_model=8, layers=2, d_state=8, head_dim=4)
    aireprune.save(model, tmp_path / "s5")
    aireprune.save(new_model(mamba2, 0).eval(), tmp_path / "mamba2")
    small = [replace(one, shares={"half gone": 0.5}, rival=_with_one_row(one.rival)) for one in comparisons.COMPARISONS]
    by_name = {one.name: one for one in small}
    return {name: (by_name[name], str(tmp_path / name)) for name in ("s5", "mamba2")}


def _with_one_row(rival):
    return replace(rival, rows={name: row[:1] for name, row in rival.rows.items()})
