"""Our own format: an S4D folder holds the modes that were kept and nothing else, and loads as if it held the rest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import aireprune
from aireprune.models.s4d import S4DModel, initialize
from aireprune.models.s4d_config import S4DConfig
from aireprune.pruning.source import open_file, open_module

REDUCTIONS = ("truncate", "refit", "balanced")


def s4d(h: int = 6, layers: int = 3) -> S4DModel:
    model = initialize(S4DModel(S4DConfig(d_input=3, d_output=4, h=h, n=16, layers=layers)), 0)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for layer in model.s4_layers:
            layer.kernel.log_A_real.add_(torch.randn(layer.kernel.log_A_real.shape, generator=random))
            layer.kernel.C.mul_(torch.exp(2 * torch.randn(layer.kernel.C.shape[:2], generator=random))[..., None])
    return model.eval()


def stored_modes(folder: Path) -> int:
    """Modes in the file, each of which has four numbers."""
    arrays = load_file(folder / "model.safetensors")
    numbers = [values.size for name, values in arrays.items() if name.endswith((".C", ".log_A_real", ".A_imag"))]
    assert sum(numbers) % 4 == 0
    return sum(numbers) // 4


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(
        first[name].numpy().tobytes() == second[name].numpy().tobytes() for name in first
    )


@pytest.mark.parametrize("layout", ["adaptive", "uniform", "padded"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_a_folder_holds_the_kept_modes_and_loads_bit_by_bit(tmp_path: Path, reduce: str, layout: str) -> None:
    full = s4d()
    small = aireprune.prune(full, ratio=0.7, reduce=reduce, layout=layout)
    aireprune.save(small, tmp_path / "small")
    loaded = aireprune.load(tmp_path / "small")
    assert same_weights(loaded, small)
    assert loaded.config.modes == small.config.modes
    orders = [layer.kernel.C.any(-1).sum().item() for layer in small.s4_layers]
    assert stored_modes(tmp_path / "small") == sum(orders) <= small.plan.kept
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    assert ("packed_rows" in config) == (layout != "uniform")


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_a_folder_is_pruned_into_what_the_model_in_memory_becomes(tmp_path: Path, reduce: str) -> None:
    """Once from equally long rows, then again from packed ones; what lies beside the weights comes along."""
    model = s4d()
    aireprune.save(model, tmp_path / "0")
    (tmp_path / "0" / "training.json").write_text("{}\n")
    for step in (1, 2):
        before, after = tmp_path / str(step - 1), tmp_path / str(step)
        plan = aireprune.prune_file(before, after, ratio=0.5, reduce=reduce)
        model = aireprune.prune(model, ratio=0.5, reduce=reduce)
        assert [layer.kept for layer in plan.layers] == [layer.kept for layer in model.plan.layers]
        assert same_weights(aireprune.load(after), model)
        assert (after / "training.json").read_text() == "{}\n"
        aireprune.save(model, tmp_path / f"{step}-memory")
        held, expected = (load_file(folder / "model.safetensors") for folder in (after, tmp_path / f"{step}-memory"))
        assert {name: values.shape for name, values in held.items()} == {n: v.shape for n, v in expected.items()}
        assert stored_modes(after) <= plan.kept
        assert aireprune.certify(after).violations == []


def test_a_plan_fits_the_packed_folder_and_the_model_in_memory(tmp_path: Path) -> None:
    small = aireprune.prune(s4d(), ratio=0.6)
    aireprune.save(small, tmp_path / "small")
    assert open_file(tmp_path / "small").fingerprint() == open_module(small).fingerprint()
    from_memory, from_file = aireprune.plan(small, ratio=0.4), aireprune.plan(tmp_path / "small", ratio=0.4)
    assert [layer.kept for layer in from_memory.layers] == [layer.kept for layer in from_file.layers]
    aireprune.prune_file(tmp_path / "small", tmp_path / "smaller", from_memory)
    assert same_weights(aireprune.load(tmp_path / "smaller"), aireprune.prune(small, from_file))


def test_calibrated_folders_are_packed_too(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).standard_normal((8, 40, 3)).astype(np.float32)
    small = aireprune.prune(s4d(), ratio=0.5)
    aireprune.save(small, tmp_path / "small")
    plan = aireprune.prune_file(tmp_path / "small", tmp_path / "smaller", ratio=0.3, calibrate=inputs)
    assert stored_modes(tmp_path / "smaller") <= plan.kept
    assert "packed_rows" in json.loads((tmp_path / "smaller" / "config.json").read_text())
    assert same_weights(aireprune.load(tmp_path / "smaller"), aireprune.prune(small, ratio=0.3, calibrate=inputs))


def test_masked_models_keep_their_modes(tmp_path: Path) -> None:
    masked = aireprune.prune(s4d(), ratio=0.6, mask=True)
    aireprune.save(masked, tmp_path / "masked")
    assert stored_modes(tmp_path / "masked") == 6 * 8 * 3
    assert same_weights(aireprune.load(tmp_path / "masked"), masked)


def test_rows_that_become_equally_long_are_not_packed(tmp_path: Path) -> None:
    small = aireprune.prune(s4d(), ratio=0.3, layout="padded")
    aireprune.save(small, tmp_path / "small")
    assert load_file(tmp_path / "small" / "model.safetensors")["s4_layers.0.kernel.C"].ndim == 2
    aireprune.prune_file(tmp_path / "small", tmp_path / "even", ratio=0.8, layout="uniform")
    arrays = load_file(tmp_path / "even" / "model.safetensors")
    assert {arrays[f"s4_layers.{i}.kernel.C"].ndim for i in range(3)} == {3}
    assert "packed_rows" not in json.loads((tmp_path / "even" / "config.json").read_text())


def test_folders_without_packed_rows_load(tmp_path: Path) -> None:
    """As they were written before there were any."""
    small = aireprune.prune(s4d(), ratio=0.6)
    aireprune.save(small, tmp_path / "small")
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    del config["packed_rows"]
    (tmp_path / "small" / "config.json").write_text(json.dumps(config))
    save_file({name: v.numpy() for name, v in small.state_dict().items()}, tmp_path / "small" / "model.safetensors")
    assert same_weights(aireprune.load(tmp_path / "small"), small)


def test_the_weights_of_a_folder_are_pruned_as_a_file_of_their_own(tmp_path: Path) -> None:
    """model.safetensors finds config.json beside it; the copy is a file in the stock layout."""
    small = aireprune.prune(s4d(), ratio=0.5)
    aireprune.save(small, tmp_path / "small")
    target = tmp_path / "out.safetensors"
    plan = aireprune.prune_file(tmp_path / "small" / "model.safetensors", target, ratio=0.3)
    assert "packed_rows" not in json.loads((tmp_path / "out.json").read_text())
    assert load_file(target)["s4_layers.0.kernel.C"].shape[0] == 6
    assert same_weights(aireprune.load(target), aireprune.prune(small, plan))
