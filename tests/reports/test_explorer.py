"""Pages with controls: what they are given, and what is left out of large models."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import aireprune
from aireprune import embedded
from aireprune.errors import AireError
from aireprune.method.reductions import truncate
from aireprune.pruning.source import open_file, open_module
from aireprune.reports import explorer
from aireprune.reports.explorer import Exploration, exploration_document, make_exploration
from aireprune.zoo import FOLDER as ZOO


def test_the_plan_it_starts_from_is_pythons():
    document = exploration_document(open_file(embedded.MODEL), Exploration(ratio=0.3))
    expected = aireprune.plan(embedded.MODEL, "aire", 0.3, reduce="truncate", layout="adaptive")
    decided = {"kept": [], "energy_kept": 0.0}  # by the page
    expected = replace(expected, certificate=None).to_dict()
    layers = [{**layer, **decided} for layer in expected["layers"]]
    assert json.loads(json.dumps(document.model.plan)) == json.loads(json.dumps({**expected, "layers": layers}))
    assert document.explore
    assert {choice.name for choice in document.model.methods} >= {"aire", "last", "lamp", "random", "aire-pair"}


def test_what_states_hold_together_gives_the_exact_error():
    source = open_file(embedded.MODEL)
    document = exploration_document(source, Exploration())
    kept = np.arange(32) % 2 == 0
    for number, layer in enumerate(document.model.layers):
        expected = truncate(source.system(number, "a test"), kept)
        relative = np.sqrt(layer.coupling[np.ix_(~kept, ~kept)].sum() / layer.coupling.sum())
        assert relative == pytest.approx(expected.relative_error, rel=1e-4)


def test_rows_that_are_stored_equally_long(tmp_path):
    own = exploration_document(open_file(ZOO / "listops-s4d"), Exploration())
    assert (own.model.packed, own.model.short_rows) == (True, False)
    arrays = {
        f"s.{name}": np.asarray(values) for name, values in aireprune.load(ZOO / "listops-s4d").state_dict().items()
    }
    from safetensors.numpy import save_file

    save_file(arrays, tmp_path / "stock.safetensors")
    stock = exploration_document(open_file(tmp_path / "stock.safetensors"), Exploration())
    assert (stock.model.packed, stock.model.short_rows) == (False, True)


def test_criteria_are_left_out_of_what_would_be_too_large(monkeypatch):
    source = open_file(embedded.MODEL)
    full = exploration_document(source, Exploration())
    room = explorer._array_bytes(full.model.layers) - 1
    monkeypatch.setattr(explorer, "_room", lambda: room)
    fewer = exploration_document(source, Exploration())
    gone = {choice.name for choice in full.model.methods} - {choice.name for choice in fewer.model.methods}
    assert gone == {"aire-published"}
    assert fewer.model.layers[0].coupling is None
    monkeypatch.setattr(explorer, "_room", lambda: 0)
    least = exploration_document(source, Exploration())
    assert {choice.criterion for choice in least.model.methods} == {"energy"}


def test_a_horizon_leaves_the_methods_that_have_one():
    document = exploration_document(open_file(embedded.MODEL), Exploration(horizon=50))
    assert {choice.criterion for choice in document.model.methods} == {"energy"}
    assert document.model.plan["horizon"] == 50
    assert document.making.commands[0].endswith("--horizon 50")


def test_arguments_and_models_in_memory():
    with pytest.raises(AireError, match="There is no argument wide="):
        make_exploration(0.5, {"wide": 1})
    with pytest.raises(AireError, match="ratio is the share"):
        exploration_document(open_file(embedded.MODEL), make_exploration(1.5, {}))
    model = aireprune.load(embedded.MODEL)
    assert exploration_document(open_module(model), Exploration()).model.parameters == 67722
