"""Plans: what they hold, that they repeat, and that they only fit their own checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import Arrays

from aireprune.errors import AireError
from aireprune.families import Found, find_layers
from aireprune.method.decision import energies
from aireprune.method.methods import METHODS
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import make_plan
from aireprune.pruning.request import make_request


def s5_arrays(seed=0, layers=3, p=6, h=4):
    rng = np.random.default_rng(seed)
    arrays = Arrays()
    for i in range(layers):
        arrays[f"layers.{i}.seq.Lambda_re"] = -rng.uniform(0.1, 2, p)
        arrays[f"layers.{i}.seq.Lambda_im"] = rng.uniform(0.1, 9, p)
        arrays[f"layers.{i}.seq.log_step"] = rng.uniform(-6, -2, (p, 1))
        arrays[f"layers.{i}.seq.B"] = rng.standard_normal((p, h, 2))
        arrays[f"layers.{i}.seq.C"] = rng.standard_normal((h, p, 2))
    return arrays


def found(arrays):
    return Found("arrays", arrays, {}, find_layers(arrays, {}))


def plan_of(arrays, **options):
    options = {"reduce": "truncate", "layout": "adaptive", **options}
    request, evidence = make_request(options.pop("method", "aire"), options.pop("ratio", 0.5), options)
    return make_plan(found(arrays), request, evidence)


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name].measured])
def test_plans_repeat_and_survive_json(method):
    arrays = s5_arrays()
    plan = plan_of(arrays, method=method)
    assert plan == plan_of(arrays, method=method)
    assert plan.kept == 9
    assert Plan.from_dict(json.loads(plan.to_json())) == plan


def test_plans_are_the_same_in_another_process(tmp_path):
    """Hash randomisation or thread counts must not show."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; from test_plan import *; "
        "print(plan_of(s5_arrays(), method='random', seed=3).to_json(), plan_of(s5_arrays()).to_json())"
    )
    paths = [str(folder) for folder in (Path(__file__).parent, Path(__file__).parents[1])]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, *paths],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_plan_only_fits_its_own_checkpoint():
    arrays = s5_arrays()
    plan = plan_of(arrays)
    plan.check(found(arrays))
    other = s5_arrays(seed=1)
    with pytest.raises(AireError, match="made from another checkpoint"):
        plan.check(found(other))
    fewer = s5_arrays(layers=2)
    with pytest.raises(AireError, match="made for another model: it has 3 layers"):
        plan.check(found(fewer))


def test_the_summary_is_the_share_of_energy():
    arrays = s5_arrays()
    plan = plan_of(arrays)
    for layer, values in zip(plan.layers, energies(found(arrays).states()), strict=True):
        assert layer.energy_kept == pytest.approx(values[list(layer.kept)].sum() / values.sum())


def test_unstable_poles_are_named_and_never_scored():
    arrays = s5_arrays()
    arrays["layers.1.seq.Lambda_re"][[2, 4]] = [0.0, 0.3]
    with pytest.raises(AireError, match=r"layers\.1\.seq state 2, 4"):
        plan_of(arrays)
    plan = plan_of(arrays, ratio=1.0, unstable="keep")
    assert [layer.kept for layer in plan.layers][1] == (2, 4)
    scores = energies(found(arrays).states())
    assert np.isnan(scores[1][[2, 4]]).all()
    assert np.isfinite(np.delete(scores[1], [2, 4])).all()


def test_layers_are_counted_as_people_count():
    arrays = s5_arrays(layers=12)
    assert [layer.name for layer in find_layers(arrays, {})] == [f"layers.{i}.seq" for i in range(12)]


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 99}', '{"schema": 1, "layers": []}'])
def test_a_broken_plan_file_is_one_sentence(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(AireError, match=r"plan\.json"):
        Plan.load(tmp_path / "plan.json")


def test_horizons_belong_to_the_energy():
    with pytest.raises(AireError, match="belongs to the energy"):
        plan_of(s5_arrays(), method="last", horizon=100)
    with pytest.raises(AireError, match="1 or more"):
        plan_of(s5_arrays(), horizon=0)
    assert plan_of(s5_arrays(), horizon=3).layers != plan_of(s5_arrays()).layers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kept": [0, 99]}, "ascending whole numbers"),
        ({"kept": [3, 1, 1]}, "ascending whole numbers"),
        ({"kept": [-1]}, "ascending whole numbers"),
        ({"kept": [1.5]}, "ascending whole numbers"),
        ({"kept": "ab"}, "ascending whole numbers"),
        ({"layout": "zzz"}, "no layout 'zzz'"),
        ({"reduce": "zzz"}, "zzz"),
        ({"method": "zzz"}, "no method 'zzz'"),
        ({"granularity": "zzz"}, "granularity"),
    ],
)
def test_a_plan_edited_by_hand_is_checked(change, message):
    values = plan_of(s5_arrays()).to_dict()
    values = json.loads(json.dumps(values))
    if "kept" in change:
        values["layers"][1].update(change)
    else:
        values.update(change)
    with pytest.raises(AireError, match=message):
        Plan.from_dict(values)


@pytest.mark.parametrize("role", ["Lambda_re", "Lambda_im", "log_step", "B", "C"])
def test_a_layer_that_lacks_an_array_is_not_passed_over(role):
    arrays = s5_arrays()
    del arrays[f"layers.1.seq.{role}"]
    with pytest.raises(AireError, match=rf"layers\.1\.seq\.{role} is missing"):
        find_layers(arrays, {})


def test_a_plan_is_one_readable_line():
    plan = plan_of(s5_arrays(layers=40, p=200), ratio=0.5)
    line = repr(plan)
    assert line.startswith("Plan(aire, ratio=0.5: 4000 of 8000 states stay in 40 layers, for ")
    assert len(line) < 120
    assert repr(plan.layers[0]) == f"LayerPlan(layers.0.seq, s5: {len(plan.layers[0].kept)} of 200 states stay)"
    assert repr(plan_of(s5_arrays(), ratio=None, threshold=0.25)).startswith("Plan(aire, threshold=0.25: ")
