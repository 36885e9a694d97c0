"""The data behind the page: every way at every share, once."""

from __future__ import annotations

import numpy as np
import pytest

import aireprune
from aireprune.errors import AireError
from aireprune.experiments.cells import Key, read_cells
from aireprune.experiments.request import FULL
from aireprune.experiments.rivals import run
from aireprune.experiments.rivals.run import Effort, Facts, gather
from aireprune.tasks.evaluate import per_example

EFFORT = Effort(examples=50, validation=40, recover_steps=20)


@pytest.mark.parametrize("name", ["s5", "mamba2"])
def test_every_way_is_done_once(small_models, tmp_path, monkeypatch, name):
    comparison, model = small_models[name]
    folder, said = tmp_path / "data", []
    gather(comparison, model, folder, EFFORT, lambda *step: said.append(step))
    cells = read_cells(folder / "cells.jsonl")
    assert set(cells) == {FULL.key, *(Key(way.name, 0.5, 0) for way in comparison.ways(20))}
    assert all(0.4 <= cell.removed <= 0.6 for key, cell in cells.items() if key != FULL.key)
    assert said[0][1:] == (0, len(cells))
    facts = Facts.load(folder / "comparison.json")
    assert (facts.family, facts.tested, len(facts.sizes)) == (name, 50, 2)
    monkeypatch.setattr(run, "load_task", lambda name: pytest.fail("data was read again"))
    gather(comparison, model, folder, EFFORT, lambda *step: None)


def test_rows_are_what_prune_makes(small_models, toy, tmp_path):
    comparison, model = small_models["s5"]
    gather(comparison, model, tmp_path / "data", EFFORT, lambda *step: None)
    cells = read_cells(tmp_path / "data" / "cells.jsonl")
    _, task = toy
    small = aireprune.prune(model, ratio=0.5, reduce="balanced")
    expected = per_example(small, task, task.test.rows(slice(50)))
    assert np.array_equal(cells[Key("balanced, without data", 0.5, 0)].per_example(50), expected)


def test_states_dropped_by_measured_energy_keep_their_readouts(small_models):
    """The way that stands for GHOST changes nothing but which states there are."""
    comparison, model = small_models["mamba2"]
    workshop = run._Workshop(aireprune.load(model), run.load_task("toy"), EFFORT)
    dropped, fitted, *_ = comparison.ways(0)
    full = workshop.source.module.state_dict()
    projection = next(name for name in full if name.endswith("out_proj.weight"))
    assert (workshop.made(dropped, 0.5)[0].state_dict()[projection] == full[projection]).all()
    assert (workshop.made(fitted, 0.5)[0].state_dict()[projection] != full[projection]).any()


def test_another_comparison_is_not_mixed_in(small_models, tmp_path):
    comparison, model = small_models["s5"]
    gather(comparison, model, tmp_path / "data", EFFORT, lambda *step: None)
    with pytest.raises(AireError, match="its examples is 50, not 60"):
        gather(comparison, model, tmp_path / "data", Effort(examples=60, validation=40), lambda *step: None)
