"""What is chosen where nothing is said, and that whatever is said stays."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from foreign_models import transformers_model
from helpers import Arrays
from safetensors.numpy import save_file
from torch import nn

import aireprune
from aireprune.calibration import damage
from aireprune.errors import AireError, Notice
from aireprune.families import find_layers
from aireprune.method.selection import Budget
from aireprune.pruning import preview
from aireprune.pruning import prune as walk
from aireprune.pruning.defaults import settle
from aireprune.pruning.layers import Unsuitable
from aireprune.pruning.request import Job, Request, make_job
from aireprune.pruning.source import Source, open_file, open_module


def settled(source: Source, own: bool = False, **choices: Any) -> tuple[Request, tuple[str, ...]]:
    """The request that choices become, and what is said about it."""
    known, job = settle(source, make_job(None, {"ratio": 0.5, **choices}), own)
    assert job.request is not None
    assert not job.request.is_open
    return job.request, known.notices


def source_of(arrays: Arrays) -> Source:
    return Source("arrays", arrays, {}, find_layers(arrays, {}))


def lru_arrays(n: int = 4) -> Arrays:
    rng = np.random.default_rng(0)
    shapes = {"nu_log": (n,), "theta_log": (n,), "gamma_log": (n,), "B_re": (n, 3), "B_im": (n, 3)}
    shapes |= {"C_re": (3, n), "C_im": (3, n)}
    return Arrays({f"lru.{name}": rng.standard_normal(shape) - 1 for name, shape in shapes.items()})


def mamba_arrays() -> Arrays:
    rng = np.random.default_rng(0)
    shapes = {"A_log": (8, 4), "x_proj.weight": (10, 8), "dt_proj.weight": (8, 2), "dt_proj.bias": (8,)}
    return Arrays({f"mamba.{name}": rng.standard_normal(shape) for name, shape in shapes.items()})


@pytest.mark.parametrize("name", small_models.MODELS)
@pytest.mark.parametrize("calibrate", [None, small_models.inputs(4)])
def test_balanced_for_linear_layers_what_data_allow_for_selective_ones(name: str, calibrate: np.ndarray | None) -> None:
    request, said = settled(open_module(small_models.MODELS[name]()), own=True, calibrate=calibrate)
    linear, known = not name.startswith("mamba"), calibrate is not None
    measured = {"mamba": ("damage-calibrated", "truncate"), "mamba2": ("aire", "fitted")} if known else {}
    expected = ("aire", "balanced") if linear else measured.get(name, ("aire", "truncate"))
    assert (request.method, request.reduce) == expected
    assert request.fallback == (linear or known)
    assert said == ()


@pytest.mark.parametrize("make", [small_models.mamba, small_models.mamba2])
def test_data_decide_for_ratios_without_a_horizon(make: Any) -> None:
    source, inputs = open_module(make()), small_models.inputs(4)
    for choices in ({"horizon": 9}, {"ratio": None, "threshold": 0.1}, {"mask": True}, {"method": "aire"}):
        request = settled(source, calibrate=inputs, **choices)[0]
        assert (request.method, request.reduce) == ("aire", "truncate")
    request = settled(source, calibrate=inputs, reduce="truncate")[0]
    assert (request.method, request.reduce) == ("damage-calibrated", "truncate")
    assert settled(source, calibrate=inputs, method="damage-calibrated")[0].reduce == "truncate"


def test_projected_layers_are_projected_again() -> None:
    small = aireprune.prune(small_models.mamba2(), ratio=0.5, reduce="projected", calibrate=small_models.inputs())
    assert settled(open_module(small), calibrate=small_models.inputs())[0].reduce == "projected"
    assert settled(open_module(small))[0].reduce == "truncate"


def test_a_mamba2_that_cannot_be_measured_is_truncated() -> None:
    """Fewer tokens than states."""
    model, inputs = small_models.mamba2(), small_models.inputs(1)[:, :8]
    with pytest.warns(Notice, match=r"ranked by method='aire' without data: .*12 states per group"):
        plan = aireprune.prune(model, ratio=0.5, calibrate=inputs).plan
    assert (plan.method, plan.reduce) == ("aire", "truncate")
    with pytest.raises(AireError, match="12 states per group"):
        aireprune.prune(model, ratio=0.5, calibrate=inputs, reduce="fitted")


def test_where_scoring_on_data_fails_states_are_ranked_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*given: Any) -> None:
        raise AireError("The inside of layer x is not known.")

    monkeypatch.setattr(damage, "measured_scores", unknown)
    model, inputs = small_models.mamba(), small_models.inputs()
    with pytest.warns(Notice, match=r"ranked by method='aire' without data: The inside of layer x is not known\."):
        small = aireprune.prune(model, ratio=0.5, calibrate=inputs)
    assert (small.plan.method, small.plan.calibrated) == ("aire", len(inputs))
    with pytest.raises(AireError, match="not known"):
        aireprune.prune(model, ratio=0.5, calibrate=inputs, method="damage-calibrated")


def test_lru_is_linear() -> None:
    assert settled(source_of(lru_arrays()))[0].reduce == "balanced"


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"method": "last"}, ("last", "truncate")),
        ({"method": "aire"}, ("aire", "balanced")),
        ({"mask": True}, ("aire", "truncate")),
        ({"reduce": "refit"}, ("aire", "refit")),
        ({"reduce": "refit", "method": "last"}, ("last", "refit")),
        ({"reduce": "truncate"}, ("aire", "truncate")),
        ({"ratio": None, "threshold": 0.1}, ("aire", "truncate")),
    ],
)
def test_what_is_named_stays_and_implies_the_rest(choices: dict[str, Any], expected: tuple[str, str]) -> None:
    request, said = settled(open_module(small_models.s5()), **choices)
    assert (request.method, request.reduce) == expected
    assert said == ()


def test_settled_jobs_stay_as_they_are() -> None:
    source = open_module(small_models.s5())
    once = settle(source, make_job(None, {"ratio": 0.5}), own=True)
    assert settle(*once, own=False) == once


def test_hybrids_are_truncated_and_told_so() -> None:
    request, said = settled(source_of(Arrays({**lru_arrays(), **mamba_arrays()})))
    assert request.reduce == "truncate"
    assert said == (
        "one plan has one reduction, and 1 of 2 layers are selective, so states are removed as they are "
        "(reduce='truncate').",
    )


def test_tensors_that_no_family_knows_are_only_cut(tmp_path: Path) -> None:
    arrays = {**lru_arrays(), "lru.gate": np.ones(4)}
    save_file(arrays, tmp_path / "in.safetensors")
    with pytest.warns(
        Notice, match=r"layer lru has tensors along its states that no family knows, so states are removed"
    ):
        plan = aireprune.prune_file(
            tmp_path / "in.safetensors", tmp_path / "out.safetensors", ratio=0.5, state_axis=["gate=0"]
        )
    assert plan.reduce == "truncate"
    with pytest.raises(AireError, match="no family knows"):
        aireprune.plan(tmp_path / "in.safetensors", ratio=0.5, state_axis=["gate=0"], reduce="balanced")


def test_unstable_poles_that_are_kept_have_no_gramians() -> None:
    model = small_models.s5()
    with torch.no_grad():
        model.get_parameter("layers.0.seq.Lambda_re")[2] = 0.1
    request, said = settled(open_module(model), own=True, unstable="keep")
    assert request.reduce == "truncate"
    assert said[0].startswith("unstable poles have no Gramians, so states are removed as they are")


@pytest.mark.parametrize("way", ["prune", "prune_file", "plan", "from file"])
def test_a_reduction_that_does_not_suit_gives_way(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to prune falls back, unless the reduction was named."""

    def unsuitable(surgery: Any, plan: Any, job: Job, evidence: Any) -> None:
        if plan.reduce != "truncate":
            raise Unsuitable("layer x is on the verge", "Do something else.")

    for module in (walk, preview):
        monkeypatch.setattr(module, "check_damage", unsuitable)
    model = small_models.s5()
    aireprune.save(model, tmp_path / "full")

    def run(**choices: Any) -> str:
        if way == "prune":
            return str(aireprune.prune(model, ratio=0.5, **choices).plan.reduce)
        if way == "from file":
            return str(aireprune.prune(tmp_path / "full", ratio=0.5, **choices).plan.reduce)
        if way == "plan":
            return aireprune.plan(model, ratio=0.5, **choices).reduce
        return aireprune.prune_file(tmp_path / "full", tmp_path / "out", ratio=0.5, overwrite=True, **choices).reduce

    with pytest.warns(Notice, match="layer x is on the verge, so states are removed as they are"):
        assert run() == "truncate"
    if way != "plan":
        with pytest.raises(AireError, match=r"Layer x is on the verge\. Nothing was written\. Do something else\."):
            run(reduce="balanced")


def test_the_default_is_the_named_way(tmp_path: Path) -> None:
    model, x = small_models.s5(), torch.from_numpy(small_models.inputs(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        default = aireprune.prune(model, ratio=0.5)
    named = aireprune.prune(model, ratio=0.5, method="aire", reduce="balanced", layout="adaptive")
    assert default.plan == named.plan
    with torch.no_grad():
        assert torch.equal(default(x), named(x))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (small_models.s5, "adaptive"),
        (small_models.mamba, "uniform"),
        (lambda: transformers_model("Mamba", state_size=6), "uniform"),
    ],
)
def test_selective_modules_and_those_of_others_get_one_size(make: Any, expected: str) -> None:
    model: nn.Module = make()
    plan = aireprune.prune(model, ratio=0.5).plan
    assert plan.layout == expected
    assert aireprune.plan(model, ratio=0.5).layout == expected
    assert aireprune.prune(model, ratio=0.5, mask=True).plan.layout == "adaptive"


@pytest.mark.parametrize("make", [small_models.s5, small_models.s4d, small_models.mamba])
def test_files_get_the_layout_that_stock_code_loads(make: Any, tmp_path: Path) -> None:
    """A file of one size per layer; our own format, of which the file may become one, is free."""
    model: nn.Module = make()
    source = tmp_path / "in.pth"
    torch.save(model.state_dict(), source)
    config: Any = model.config.to_dict()
    plan = aireprune.prune_file(source, tmp_path / "out.pth", ratio=0.5, config=config)
    assert plan.layout == "uniform"
    sizes = {layer.states // layer.rows for layer in open_file(tmp_path / "out.pth", config).layers}
    assert sizes == {open_file(source, config).layers[0].states // open_file(source, config).layers[0].rows // 2}
    assert aireprune.plan(source, ratio=0.5, config=config) == plan
    own = "uniform" if make is small_models.mamba else "adaptive"
    assert aireprune.prune_file(source, tmp_path / "own", ratio=0.5, config=config).layout == own
    assert aireprune.prune_file(tmp_path / "own", tmp_path / "twice", ratio=0.5).layout == own
    named = aireprune.prune_file(source, tmp_path / "named.pth", ratio=0.5, config=config, layout="adaptive")
    assert named.layout == "adaptive"


def test_layers_of_different_sizes_or_that_may_vanish_are_adaptive() -> None:
    varied = source_of(Arrays({f"{i}.{name}": v for i in (0, 1) for name, v in lru_arrays(4 + i).items()}))
    assert settled(varied)[0].layout == "adaptive"
    assert settled(source_of(lru_arrays()))[0].layout == "uniform"
    assert settled(source_of(lru_arrays()), epsilon=0.1)[0].layout == "adaptive"


def test_an_open_request_is_no_plan_yet() -> None:
    assert Request(budget=Budget(ratio=0.5)).is_open
    assert not Request(budget=Budget(ratio=0.5), method="aire", reduce="truncate", layout="adaptive").is_open
