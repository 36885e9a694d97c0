"""The pruner of an experiment does what the public functions do, and measures once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_models import inputs, mamba2

import aireprune
from aireprune.calibration.inputs import read_inputs, task_inputs
from aireprune.experiments.pruner import Pruner, load_model, sweep_inputs
from aireprune.experiments.request import Cell, SweepRequest
from aireprune.experiments.variants import Variant
from aireprune.models.saving import save_model


def assert_same(a, b):
    for (name, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.equal(x, y), name


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        (Variant.of("last"), {"method": "last"}),
        (Variant.of("aire", "balanced"), {"reduce": "balanced"}),
        (Variant.of("aire", epsilon=0.1, horizon=9), {"reduce": "truncate", "epsilon": 0.1, "horizon": 9}),
        (Variant.of("random"), {"method": "random", "seed": 3}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_variant_is_pruned_as_the_public_function_does(toy, variant, options):
    model, _ = toy
    found = Pruner(model)(Cell(variant, 0.5, options.get("seed", 0)))
    expected = aireprune.prune(model, ratio=0.5, **options)
    assert_same(found.model, expected)
    assert found.plan == expected.plan


@pytest.mark.parametrize("reduce", ["truncate", "balanced"])
def test_a_plan_without_certificates_makes_the_same_model(toy, reduce):
    model, _ = toy
    cell = Cell(Variant.of("aire", reduce), 0.5)
    told, bare = Pruner(model)(cell), Pruner(model, certified=False)(cell)
    assert_same(told.model, bare.model)
    assert told.plan.certificate
    assert bare.plan == replace(told.plan, certificate=None)


def test_calibration_reads_and_measures_once(toy):
    model, task = toy
    reads = []

    def inputs():
        reads.append(1)
        return task_inputs(task, 8)

    pruner, cell = Pruner(model, inputs), Cell(Variant.of("aire", "balanced", True), 0.5)
    first, again = pruner(cell), pruner(cell)
    assert len(reads) == 1
    assert_same(first.model, again.model)
    assert_same(first.model, aireprune.prune(model, ratio=0.5, reduce="balanced", calibrate=task_inputs(task, 8)))


@pytest.mark.parametrize("reduce", ["projected", "fitted"])
def test_reductions_that_need_data(reduce):
    model, x = mamba2(), inputs(8)
    cell = Cell(Variant.of("aire", reduce, True), 0.5)
    found = Pruner(model, lambda: read_inputs(x))(cell)
    assert_same(found.model, aireprune.prune(model, ratio=0.5, reduce=reduce, layout="adaptive", calibrate=x))


def test_a_plan_is_applied_by_removing_or_silencing(toy):
    model, task = toy
    pruner = Pruner(model)
    plan = pruner.plan(Cell(Variant.of("aire"), 0.5))
    x = torch.from_numpy(task.inputs(task.test.x[:5]))
    with torch.no_grad():
        removed, masked = (pruner.apply(plan, mask)(x) for mask in (False, True))
    torch.testing.assert_close(removed, masked, rtol=1e-4, atol=1e-5)


def test_the_inputs_of_a_sweep(toy):
    _, task = toy
    request = SweepRequest(variants=(Variant.of("aire"),), ratios=(0.5,), calibrate_count=7)
    assert len(sweep_inputs(task, request)) == 7


def test_models_come_back(toy, tmp_path):
    model, _ = toy
    for _ in range(2):  # the second takes the place of the first
        save_model(model, tmp_path / "model", overwrite=True)
    assert_same(load_model(tmp_path / "model"), model)
