"""Sizes are those of real checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

import aireprune
from aireprune import embedded
from aireprune.pruning.source import open_file, open_module
from aireprune.reports.sizes import bytes_text, count_text, per_size, size_of
from aireprune.zoo import FOLDER as ZOO


def test_of_a_file_and_of_the_model_in_it():
    on_disk, model = size_of(open_file(embedded.MODEL)), aireprune.load(embedded.MODEL)
    assert on_disk.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert on_disk.bytes == (embedded.MODEL / "model.safetensors").stat().st_size
    assert size_of(open_module(model)) == type(on_disk)(on_disk.parameters, None)


@pytest.mark.parametrize("path", [embedded.MODEL, ZOO / "lm-mamba", ZOO / "listops-s4d"])
def test_one_state_less_is_as_many_parameters_less(path):
    source = open_file(path)
    plan = aireprune.plan(path, "uniform-energy", 0.5, layout="uniform", reduce="truncate", granularity="state")
    small = aireprune.prune(path, plan=plan)
    per_layer = [
        per_size(source, number) * (layer.states // max(layer.rows, layer.groups) - len(mine.kept))
        for number, (layer, mine) in enumerate(zip(source.layers, plan.layers, strict=True))
    ]
    full = size_of(source).parameters
    assert np.sum(per_layer) == full - sum(parameter.numel() for parameter in small.parameters())


def test_numbers_as_people_read_them():
    assert [count_text(n) for n in (0, 67722, 130_000_000, 2_800_000_000)] == [
        "0",
        "67,722",
        "130.0 million",
        "2.80 billion",
    ]
    assert [bytes_text(n) for n in (999, 278_400, 5_534_000_000)] == ["0.999 kB", "278 kB", "5.53 GB"]
