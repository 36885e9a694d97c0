"""Mamba-2 layers made smaller from measured moments: ours, transformers' in memory and in folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_models import INEXACT_CACHES, MODELS, close, decode
from small_models import distance, inputs, mamba, mamba2, s5
from torch import nn

import aireprune
from aireprune import AireError
from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.subject import find_subject
from aireprune.pruning.source import open_module

PROJECTED: dict[str, Any] = {"ratio": 0.75, "reduce": "projected", "layout": "uniform"}
MIXERS = ("mamba2", "bamba", "falcon_h1", "zamba2", "nemotron_h")


def tokens(count: int = 24) -> torch.Tensor:
    return torch.randint(1, 40, (count, 20), generator=torch.Generator().manual_seed(0))


def moments(model: nn.Module, given: Any) -> list[np.ndarray | None]:
    return measured_covariances(find_subject(open_module(model), read_inputs(given)), read_inputs(given))


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return torch.as_tensor(model(tokens(4), use_cache=False).logits)


def test_projection_loses_least() -> None:
    full, x, fresh = mamba2(), inputs(32), inputs(16, seed=1)
    small = aireprune.prune(full, **PROJECTED, calibrate=x)
    assert small.config.state_sizes == (3, 3)
    assert small.config.gate_sizes == (12, 12)
    stock = aireprune.prune(full, ratio=0.75, method="damage-calibrated", layout="uniform", calibrate=x)
    assert distance(full, small, fresh) < distance(full, stock, fresh) / 4


def test_all_states_or_nearly_all_lose_nothing() -> None:
    full, given = mamba2(), moments(mamba2(), inputs())
    same = aireprune.prune(full, ratio=0.0, reduce="projected", covariances=given)
    assert same.config.projected_from is None
    nearly = aireprune.prune(full, ratio=0.01, reduce="projected", covariances=given)
    assert nearly.config.state_sizes == (11, 11)
    with torch.no_grad():
        power = float(full(torch.from_numpy(inputs())).square().mean())
    assert distance(full, nearly, inputs()) < 1e-6 * power


def test_predicted_and_measured_errors_agree_where_gates_do_not_depend_on_states() -> None:
    """C is made constant, so that it is independent of everything."""
    full = mamba2(n_groups=1)
    first, n = 2 * full.config.inner, full.config.d_state
    with torch.no_grad():
        for layer in full.layers:
            layer.in_proj.weight[first + n : first + 2 * n] = 0
            layer.conv1d.bias[-n:] = torch.randn(n, generator=torch.Generator().manual_seed(1))
    same = torch.from_numpy(inputs(1)).repeat(8, 1, 1)  # held-out inputs are like the others
    plan = aireprune.prune(full, ratio=0.9, reduce="projected", layout="uniform", calibrate=same).plan
    for layer in plan.layers:
        assert layer.measured_error == pytest.approx(layer.predicted_error, rel=1e-2, abs=1e-4)


def test_adaptive_and_padded_layouts_and_a_second_projection() -> None:
    full, x = mamba2(), inputs(16)
    given = moments(full, x)
    adaptive = aireprune.prune(full, ratio=0.7, reduce="projected", layout="adaptive", covariances=given)
    padded = aireprune.prune(full, ratio=0.7, reduce="projected", layout="padded", covariances=given)
    assert len(set(adaptive.config.state_sizes)) == 2
    assert padded.config.state_sizes == (max(adaptive.config.state_sizes),) * 2
    assert distance(adaptive, padded, x) < 1e-10
    twice = aireprune.prune(adaptive, ratio=0.5, reduce="projected", layout="adaptive", calibrate=x)
    assert sum(twice.config.state_sizes) == sum(adaptive.config.state_sizes) // 2
    assert twice.config.gate_sizes == (12, 12)
    assert [layer.B_proj.shape[1] for layer in twice.layers] == [12, 12]


def test_our_own_files(tmp_path: Path) -> None:
    full, x = mamba2(), inputs(16)
    wanted = aireprune.prune(full, **PROJECTED, calibrate=x)
    aireprune.save(full, tmp_path / "folder")
    torch.save(full.state_dict(), tmp_path / "file.pth")
    (tmp_path / "file.json").write_text(json.dumps(full.config.to_dict()))
    for source in ("folder", "file.pth"):
        out = tmp_path / f"out-{source.partition('.')[0]}"
        plan = aireprune.prune_file(tmp_path / source, out, **PROJECTED, calibrate=x)
        assert [layer.measured_error is not None for layer in plan.layers] == [True, True]
        loaded = aireprune.load(out)
        assert loaded.config.gate_sizes == (12, 12)
        with torch.no_grad():
            close(loaded(torch.from_numpy(x)), wanted(torch.from_numpy(x)))
        assert json.loads((out / "config.json").read_text())["projected_from"] == [12, 12]
    with pytest.raises(AireError, match="a target without a suffix"):
        aireprune.prune_file(tmp_path / "file.pth", tmp_path / "out.pth", **PROJECTED, calibrate=x)
    assert not (tmp_path / "out.pth").exists()


def with_twins(model: nn.Module) -> nn.Module:
    """The model with its last two states of every group driven alike, so that one of them is not needed."""
    with torch.no_grad():
        for layer in open_module(model).layers:
            mixer: Any = model.get_submodule(layer.name)
            n = layer.options.values
            for part, first in ((mixer.in_proj, layer.options.first_row), (mixer.conv1d, layer.options.first_channel)):
                for group in range(layer.groups):
                    last = first + (group + 1) * n - 1
                    for parameter in part.parameters():
                        parameter[last] = parameter[last - 1]
    return model


@pytest.mark.parametrize("name", MIXERS)
def test_transformers_modules(name: str) -> None:
    """A projection that has nothing to lose is the model itself, whole and token by token."""
    full: Any = with_twins(MODELS[name]())
    given = moments(full, tokens())
    same: Any = aireprune.prune(full, ratio=0.01, reduce="projected", layout="uniform", covariances=given)
    assert same.config.projected_from == 6
    with torch.no_grad():
        wanted, found = logits(full), logits(same)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
        if name not in INEXACT_CACHES:
            close(decode(same, tokens(4)[:, :12], 7), same(tokens(4)[:, :12]).logits)


@pytest.mark.parametrize("name", ["mamba2", "nemotron_h", "falcon_h1"])  # streamed, and (renamed) through memory
def test_transformers_folders(name: str, tmp_path: Path) -> None:
    full: Any = MODELS[name]()
    full.save_pretrained(tmp_path / "in")
    choices = {**PROJECTED, "ratio": 0.5, "calibrate": tokens().numpy()}
    plan = aireprune.prune_file(tmp_path / "in", tmp_path / "out", **choices)
    loaded: Any = aireprune.load(tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["projected_from"] == loaded.config.projected_from == 6
    assert all(layer.measured_error is not None for layer in plan.layers)
    wanted: Any = aireprune.prune(full, **choices)
    close(logits(loaded), logits(wanted))
    loaded.save_pretrained(tmp_path / "again")
    again: Any = aireprune.load(tmp_path / "again")
    close(logits(again), logits(loaded))
    with torch.no_grad():
        if name not in INEXACT_CACHES:
            close(decode(loaded, tokens(4)[:, :12], 7), loaded(tokens(4)[:, :12]).logits)
    with pytest.raises(RuntimeError, match="mismatch"):  # stock code refuses what it cannot run
        type(full).from_pretrained(tmp_path / "out")


def test_fitted_rows_do_better_than_plain_removal_in_the_same_layout(tmp_path: Path) -> None:
    full, x, fresh = mamba2(), inputs(32), inputs(16, seed=1)
    choices: dict[str, Any] = {"ratio": 0.75, "layout": "uniform", "calibrate": x}
    plain = aireprune.prune(full, method="damage-calibrated", **choices)
    fitted = aireprune.prune(full, reduce="fitted", **choices)
    assert fitted.state_dict().keys() == full.state_dict().keys()
    assert fitted.config.gate_sizes == fitted.config.state_sizes == (3, 3)
    assert distance(full, fitted, fresh) < distance(full, plain, fresh)
    for name in ("A_log", "D", "dt_bias"):
        assert torch.equal(getattr(fitted.layers[0], name), getattr(full.layers[0], name))


def test_fitted_folders_load_in_stock_code(tmp_path: Path) -> None:
    full: Any = MODELS["mamba2"]()
    full.save_pretrained(tmp_path / "in")
    choices: dict[str, Any] = {"ratio": 0.5, "reduce": "fitted", "layout": "uniform", "calibrate": tokens().numpy()}
    aireprune.prune_file(tmp_path / "in", tmp_path / "out", **choices)
    stock = type(full).from_pretrained(tmp_path / "out").eval()
    assert stock.config.state_size == 3
    close(logits(stock), logits(aireprune.prune(full, **choices)))


@pytest.mark.parametrize("name", ["mamba2", "bamba"])
def test_fitting_a_folder_moves_what_fitting_in_memory_moves(name: str, tmp_path: Path) -> None:
    """Of in_proj the rows that make B and C; those that make z, x and the steps stay."""
    full: Any = MODELS[name]()
    with torch.no_grad():
        for parameter in full.parameters():
            if parameter.ndim == 2:
                parameter *= 4  # so that states matter
    full.save_pretrained(tmp_path / "in")
    same = np.tile(tokens(1).numpy(), (8, 1))  # held-out sequences are like the others, so the fit is kept
    choices: dict[str, Any] = {"ratio": 0.5, "reduce": "fitted", "layout": "uniform", "calibrate": same}
    aireprune.prune_file(tmp_path / "in", tmp_path / "out", **choices)
    streamed, inside = aireprune.load(tmp_path / "out"), aireprune.prune(full, **choices)
    for key, values in inside.state_dict().items():
        torch.testing.assert_close(streamed.state_dict()[key], values, rtol=1e-4, atol=1e-5)
    plain = aireprune.prune(full, replace(inside.plan, reduce="truncate", calibrated=0))
    for layer in open_module(full).layers:
        before, after = (model.get_submodule(layer.name).in_proj.weight for model in (plain, streamed))
        first, heads = layer.options.first_row, len(full.get_submodule(layer.name).A_log)
        gates = slice(first, len(after) - heads)
        assert torch.equal(after[:first], before[:first])
        assert torch.equal(after[-heads:], before[-heads:])
        assert (after[gates] != before[gates]).any(dim=1).all()


@pytest.mark.parametrize("reduce", ["projected", "fitted"])
@pytest.mark.parametrize(
    ("model", "choices", "message"),
    [
        (s5, {"calibrate": inputs()}, "is for Mamba-2.*is s5"),
        (mamba, {"calibrate": inputs()}, "is for Mamba-2.*is mamba"),
        (mamba2, {}, "needs unlabelled inputs"),
        (mamba2, {"calibrate": inputs(), "method": "last"}, "method 'last' cannot be combined"),
        (mamba2, {"calibrate": inputs(), "mask": True}, "A mask leaves every state"),
        (mamba2, {"covariances": [np.ones((2, 2, 12, 11)), None]}, r"have shape \(2, 2, 12, 11\)"),
        (mamba2, {"covariances": [None, None]}, "inside is not known, or it is not called"),
    ],
)
def test_what_cannot_be_done(reduce: str, model: Any, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(AireError, match=message):
        aireprune.prune(model(), ratio=0.5, reduce=reduce, **choices)


def test_no_state_is_too_few() -> None:
    with pytest.raises(AireError, match="would keep no state"):
        aireprune.prune(mamba2(), ratio=1.0, min_states=0, reduce="projected", calibrate=inputs())


def test_code_that_cannot_run_projected_states() -> None:
    class Stranger(type(mamba2().layers[0]).__bases__[0]):  # type: ignore[misc]
        forward = type(mamba2().layers[0]).forward
        scan_output = type(mamba2().layers[0]).scan_output
        _scan = type(mamba2().layers[0])._scan
        new_cache = type(mamba2().layers[0]).new_cache

    model = mamba2()
    model.layers[1].__class__ = Stranger
    with pytest.raises(AireError, match=r"layers\.1 is a Stranger, whose code cannot run projected states"):
        aireprune.prune(model, **PROJECTED, calibrate=inputs())
