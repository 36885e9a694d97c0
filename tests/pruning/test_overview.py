"""What a model holds, as `aireprune.inspect` and `aire inspect` say it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import aireprune
from aireprune import embedded
from aireprune.cli.output import SCHEMA


@pytest.fixture(scope="module")
def found():
    return aireprune.inspect(embedded.MODEL)


def test_layers_and_totals(found):
    assert [layer.name for layer in found.layers] == [f"layers.{i}.seq" for i in range(4)]
    assert (found.states, found.families, found.kind) == (128, ["s5"], "aire")
    assert sum(layer.energy_share for layer in found.layers) == pytest.approx(1)
    for layer in found.layers:
        assert layer.slowest_memory_steps == pytest.approx(-1 / np.log1p(-layer.stability_margin))
        assert not layer.dead
        assert layer.unstable == ()


def test_a_module_says_the_same_as_its_file(found):
    assert aireprune.inspect(aireprune.load(embedded.MODEL)).layers == found.layers


def test_the_command_prints_it(found, aire):
    code, out, _ = aire("inspect", embedded.MODEL, "--json")
    assert code == 0
    assert json.loads(out) == {"schema": SCHEMA, "path": str(embedded.MODEL), **found.to_dict()}


def test_data_frame(found):
    pytest.importorskip("pandas", reason="pandas is not installed: no data frame was made")
    assert found.to_pandas()["states"].tolist() == [32] * 4
