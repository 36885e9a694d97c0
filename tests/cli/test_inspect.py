"""aire inspect."""

from __future__ import annotations

import json

import pytest


def test_layers_states_and_energies(aire, s5_file):
    code, out, _ = aire("inspect", s5_file)
    assert code == 0
    assert "s5 (flax), 3 layers, 24 states" in " ".join(out.split())
    code, out, _ = aire("inspect", s5_file, "--json")
    document = json.loads(out)
    assert [layer["states"] for layer in document["layers"]] == [8, 8, 8]
    assert sum(layer["energy_share"] for layer in document["layers"]) == pytest.approx(1)
    assert all(0 < layer["stability_margin"] < 1 for layer in document["layers"])


def test_scores_need_no_configuration(aire, s5_file):
    s5_file.with_suffix(".json").unlink()
    assert aire("inspect", s5_file)[0] == 0


def test_columns_that_say_nothing_are_left_out(aire):
    """So that names, numbers and bars stand on one line of 80 columns."""
    _, out, _ = aire("inspect", "zoo:listops-s5")
    _, heads, first, *_ = out.splitlines()
    assert heads.split() == ["layer", "states", "margin", "1-|λ|", "memory", "energy"]
    assert "%  █" in first
    assert len(first) <= 80
