"""S4D files in a stock layout: channels are balanced against rows as long as the longest, and large files are named."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import POST_NORM

import aireprune
from aireprune.errors import Notice
from aireprune.method.rows import ROW_COST
from aireprune.models.s4d import S4DModel, initialize
from aireprune.models.s4d_config import S4DConfig
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import layer_hankel_scores, make_plan
from aireprune.pruning.request import PlanChoices, make_request
from aireprune.pruning.source import open_file

H, N = 16, 12
ADAPTIVE: PlanChoices = {"reduce": "truncate", "layout": "adaptive"}


def uneven() -> S4DModel:
    """Modes that hardly overlap in frequency, of random strengths: a free choice leaves rows of different lengths."""
    model = initialize(S4DModel(S4DConfig(d_input=3, d_output=4, h=H, n=2 * N, layers=2)), 0)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for layer in model.s4_layers:
            layer.kernel.log_dt.fill_(-2.7)
            layer.kernel.C.mul_(torch.exp(0.2 * torch.randn(H, 1, 1, generator=random)))
    return model.eval()


def file_of(model: torch.nn.Module, path: Path) -> Path:
    path.with_suffix(".json").write_text(POST_NORM)
    if path.suffix == ".safetensors":
        save_file(model.state_dict(), path)
    else:
        torch.save(model.state_dict(), path)
    return path


def row_lengths(plan: Plan) -> list[int]:
    """How long the longest row of every layer is."""
    return [int(np.bincount(np.array(layer.kept, int) // N, minlength=H).max()) for layer in plan.layers]


def free_plan(path: Path, ratio: float, **choices: Any) -> Plan:
    """The plan without regard to rows."""
    request, evidence = make_request("aire", ratio, {**ADAPTIVE, **choices})
    source = open_file(path, units=request.units)
    return make_plan(source, request, evidence, source.origin)


def notices(*arguments: Any, **choices: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        aireprune.prune_file(*arguments, **choices)
    return [str(warning.message) for warning in caught if warning.category is Notice]


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_rows_get_shorter_for_little(tmp_path: Path, reduce: str, suffix: str) -> None:
    source = file_of(uneven(), tmp_path / f"in{suffix}")
    free = free_plan(source, ratio=0.6, reduce=reduce)
    plan = aireprune.prune_file(source, tmp_path / f"out{suffix}", ratio=0.6, reduce=reduce, layout="adaptive")
    assert [len(layer.kept) for layer in plan.layers] == [len(layer.kept) for layer in free.layers]
    assert all(short < long for short, long in zip(row_lengths(plan), row_lengths(free), strict=True))
    for mine, best in zip(plan.layers, free.layers, strict=True):
        removed, least = 1 - mine.energy_kept, 1 - best.energy_kept
        assert least < removed <= (1 + ROW_COST) * least * (1 + 1e-9)
    aireprune.prune_file(source, tmp_path / f"free{suffix}", free)
    assert (tmp_path / f"out{suffix}").stat().st_size < (tmp_path / f"free{suffix}").stat().st_size
    model = aireprune.load(tmp_path / f"out{suffix}")
    if reduce != "balanced":
        assert list(model.config.modes) == row_lengths(plan)
    assert Plan.load(tmp_path / "out.plan.json").layers == plan.layers
    assert aireprune.certify(tmp_path / f"out{suffix}").violations == []


@pytest.mark.parametrize("copies", [H, H // 2])
def test_files_of_the_s4_repository(tmp_path: Path, copies: int) -> None:
    """Rows belong to copies of the poles; the channels of one copy keep the same modes."""
    rng = np.random.default_rng(0)
    arrays = {
        "k.inv_dt": np.full((H, 1), -2.7),
        "k.A_real": np.full((copies, N), np.log(0.5)),
        "k.A_imag": np.pi * np.tile(np.arange(N), (copies, 1)),
        "k.B": np.tile([1.0, 0.0], (1, copies, N, 1)),
        "k.C": rng.standard_normal((1, H, N, 2)),
    }
    source = tmp_path / "in.safetensors"
    save_file({name: torch.tensor(values, dtype=torch.float32) for name, values in arrays.items()}, source)
    free = free_plan(source, ratio=0.6)
    plan = aireprune.prune_file(source, tmp_path / "out.safetensors", ratio=0.6, **ADAPTIVE)
    assert plan.kept == free.kept
    assert row_lengths(plan)[0] < row_lengths(free)[0]
    assert load_file(tmp_path / "out.safetensors")["k.C"].shape == (1, H, row_lengths(plan)[0], 2)
    (said,) = notices(source, tmp_path / "small.safetensors", ratio=0.9, **ADAPTIVE)
    assert said.endswith("; layout='uniform' or granularity='state' gives a smaller file.")


def test_balanced_channels_keep_their_leading_states(tmp_path: Path) -> None:
    source = file_of(uneven(), tmp_path / "in.pth")
    plan = aireprune.prune_file(source, tmp_path / "out.pth", ratio=0.6, reduce="balanced", layout="adaptive")
    scores = layer_hankel_scores(open_file(source))
    for layer, values in zip(plan.layers, scores, strict=True):
        rows = np.zeros(H * N, bool)
        rows[list(layer.kept)] = True
        assert (np.diff(rows.reshape(H, N).astype(int), axis=1) <= 0).all()
        assert layer.energy_kept == pytest.approx(values[rows].sum() / values.sum())


def test_models_and_our_own_format_choose_freely(tmp_path: Path) -> None:
    model = uneven()
    source = file_of(model, tmp_path / "in.pth")
    aireprune.save(model, tmp_path / "own")
    free = [layer.kept for layer in free_plan(source, ratio=0.6).layers]
    assert [layer.kept for layer in aireprune.prune(model, ratio=0.6, **ADAPTIVE).plan.layers] == free
    for path, target in ((source, tmp_path / "a"), (tmp_path / "own", tmp_path / "b")):
        assert [layer.kept for layer in aireprune.prune_file(path, target, ratio=0.6, **ADAPTIVE).layers] == free


@pytest.mark.parametrize("choices", [{"mask": True}, {"layout": "padded"}, {"granularity": "state"}])
def test_where_rows_are_not_to_be_short_the_choice_is_free(tmp_path: Path, choices: dict[str, Any]) -> None:
    source = file_of(uneven(), tmp_path / "in.pth")
    options = {key: value for key, value in choices.items() if key != "mask"}
    free = free_plan(source, ratio=0.6, **options)
    plan = aireprune.prune_file(source, tmp_path / "out.pth", ratio=0.6, **{**ADAPTIVE, **choices})
    assert [layer.kept for layer in plan.layers] == [layer.kept for layer in free.layers]


def test_a_given_plan_is_applied_as_it_is(tmp_path: Path) -> None:
    source = file_of(uneven(), tmp_path / "in.pth")
    free = free_plan(source, ratio=0.6)
    assert aireprune.prune_file(source, tmp_path / "out.pth", free).layers == free.layers


def test_calibrated_files_have_short_rows(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).standard_normal((8, 40, 3)).astype(np.float32)
    source = file_of(uneven(), tmp_path / "in.pth")
    plain = aireprune.prune_file(source, tmp_path / "plain.pth", ratio=0.6, **ADAPTIVE)
    calibrated = aireprune.prune_file(source, tmp_path / "out.pth", ratio=0.6, calibrate=inputs, **ADAPTIVE)
    assert calibrated.layers == plain.layers
    assert list(aireprune.load(tmp_path / "out.pth").config.modes) == row_lengths(plain)


def test_a_file_that_stays_large_is_named(tmp_path: Path) -> None:
    model = uneven()
    source = file_of(model, tmp_path / "in.pth")
    free = free_plan(source, ratio=0.9)
    stored = sum(length * H for length in row_lengths(free))
    assert stored >= 1.5 * free.kept
    (said,) = notices(source, tmp_path / "out.pth", free)
    assert f"{stored} modes are stored for {free.kept} kept ({stored / free.kept:.1f} times as many)" in said
    assert "layout='uniform', granularity='state' or our own format (a target without a suffix)" in said
    aireprune.save(model, tmp_path / "own")
    assert notices(source, tmp_path / "folder", free) == []
    assert notices(tmp_path / "own", tmp_path / "smaller", ratio=0.9) == []
    for number, choices in enumerate(({"layout": "uniform"}, {"granularity": "state"}, {"mask": True})):
        assert notices(source, tmp_path / f"{number}.pth", ratio=0.9, **{**ADAPTIVE, **choices}) == []


def test_a_file_that_is_about_as_small_as_it_gets_is_not(tmp_path: Path) -> None:
    source = file_of(uneven(), tmp_path / "in.pth")
    plan = aireprune.prune_file(source, tmp_path / "out.pth", ratio=0.3, **ADAPTIVE)
    assert sum(length * H for length in row_lengths(plan)) > plan.kept
    assert notices(source, tmp_path / "again.pth", ratio=0.3, **ADAPTIVE) == []


def test_a_plan_of_a_path_is_what_the_file_gets(tmp_path: Path) -> None:
    source = file_of(uneven(), tmp_path / "in.pth")
    plan = aireprune.plan(source, ratio=0.6, **ADAPTIVE)
    applied = aireprune.prune_file(source, tmp_path / "out.pth", ratio=0.6, **ADAPTIVE)
    assert [layer.kept for layer in plan.layers] == [layer.kept for layer in applied.layers]
    assert row_lengths(plan) != row_lengths(free_plan(source, 0.6))
