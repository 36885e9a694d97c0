"""Kernels of earlier versions of the S4 repository: the same layers under other names, before and after pruning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import Arrays
from s4_models import hippo_layer, older, repository, s4_kernel, s4_layer
from safetensors.numpy import load_file, save_file

import aireprune
from aireprune.errors import AireError
from aireprune.families import find_layers
from aireprune.families.s4 import diagonalize
from aireprune.families.s4_older import under_todays_names
from aireprune.pruning.source import open_file

PREFIX = "model.s4_layers.0.kernel.kernel."


def kernel(arrays: Arrays) -> dict[str, np.ndarray]:
    """A layer called k by role, in the precision of a file."""
    return {
        name.removeprefix("k."): values.astype(np.float32 if values.dtype.kind == "f" else int)
        for name, values in arrays.items()
    }


def stored(arrays: Arrays) -> Arrays:
    return Arrays({PREFIX + name: values for name, values in older(kernel(arrays)).items()})


@pytest.mark.parametrize("real", ["inv_w_real", "log_w_real"])
def test_the_view_is_the_kernel_of_today(real: str) -> None:
    today = kernel(s4_layer(np.random.default_rng(0), 2, 32, False))
    file = Arrays({name.replace("inv_w_real", real): values for name, values in stored(s4(0)).items()})
    view = under_todays_names(file, {})
    assert view is not None
    assert {name.removeprefix(PREFIX): shape for name, shape in view.shapes.items()} == {
        role: values.shape for role, values in today.items()
    }
    for role, values in today.items():
        np.testing.assert_array_equal(view[PREFIX + role], values)


def s4(seed: int) -> Arrays:
    return s4_layer(np.random.default_rng(seed), 2, 32, False)


@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
@pytest.mark.parametrize("make", [lambda: s4_layer(np.random.default_rng(1), 1, 40, False, h=3, s=3, n=4), None])
def test_pruned_files_keep_their_names(tmp_path: Path, reduce: str, make) -> None:
    """The same layer once under today's names and once under the old ones, exactly diagonalised and fitted."""
    layer = make() if make else hippo_layer(np.random.default_rng(2), l_kernel=100)
    today = Arrays({PREFIX + role: values for role, values in kernel(layer).items()})
    results = {}
    for name, arrays in (("today", today), ("older", stored(layer))):
        save_file(dict(arrays), tmp_path / f"{name}.safetensors")
        target = tmp_path / f"{name}-small.safetensors"
        plan = aireprune.prune_file(tmp_path / f"{name}.safetensors", target, ratio=0.4, reduce=reduce)
        results[name] = load_file(target)
        assert plan.layers[0].name == PREFIX.rstrip(".")
    roles = {name.removeprefix(PREFIX): values for name, values in results["today"].items()}
    assert results["older"].keys() == stored(layer).keys()
    for name, values in older(roles).items():
        np.testing.assert_array_equal(results["older"][PREFIX + name], values)
    assert aireprune.certify(tmp_path / "older-small.safetensors").violations == []
    assert results["older"][PREFIX + "inv_w_real"].shape[1] < 33


def test_s4d_of_earlier_versions(tmp_path: Path) -> None:
    layer = repository(np.random.default_rng(3), h=4, s=2, n=3)
    save_file(dict(stored(layer)), tmp_path / "s4d.safetensors")
    with pytest.raises(AireError, match="disc 'bilinear'"):
        open_file(tmp_path / "s4d.safetensors")
    source = open_file(tmp_path / "s4d.safetensors", {"disc": "bilinear"})
    (today,) = find_layers(
        Arrays({f"k.{role}": values for role, values in kernel(layer).items()}), {"disc": "bilinear"}
    )
    assert source.layers[0].options == today.options
    plain = Arrays({f"k.{role}": values for role, values in kernel(layer).items()})
    system = source.system(0, "this")
    reference = s4_kernel({**plain, "k.P": np.zeros((1, 2, 3, 2)), "k.l_kernel": np.array(0)}, 50)
    np.testing.assert_allclose(system.kernel(50)[:, 0, :, 0, 0], reference[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("missing", ["w_imag", "B"])
def test_a_kernel_that_lacks_a_tensor_is_not_passed_over(missing: str) -> None:
    arrays = stored(s4(4))
    del arrays[PREFIX + missing]
    with pytest.raises(AireError, match="is missing"):
        diagonalize(arrays, {})


def test_d_is_found_around_both_kernels(tmp_path: Path) -> None:
    arrays = {**stored(s4(5)), "model.s4_layers.0.D": np.ones((1, 4), np.float32)}
    save_file(arrays, tmp_path / "s4.safetensors")
    assert open_file(tmp_path / "s4.safetensors").layers[0].feedthrough == "model.s4_layers.0.D"
