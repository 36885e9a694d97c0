"""S4 files as models: the network of the S4 repository's example.py, under its names of three versions and any prefix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import Arrays
from s4_models import hippo_layer, network, repository, run_network, s4_layer
from safetensors.numpy import load_file, save_file

import aireprune
from aireprune.errors import AireError
from aireprune.models.s4d import S4DConfig, S4DModel, initialize
from aireprune.pruning.source import open_file

H, LENGTH = 5, 60


def by_role(layer: Arrays) -> dict[str, np.ndarray]:
    return {name.removeprefix("k."): values for name, values in layer.items()}


def exact(l_kernel: int = 0, s: int = H) -> list[Mapping[str, np.ndarray]]:
    return [by_role(s4_layer(np.random.default_rng(seed), 1, l_kernel, False, H, s, 4)) for seed in (0, 1)]


def fitted() -> list[Mapping[str, np.ndarray]]:
    return [by_role(hippo_layer(np.random.default_rng(seed), H, H, 16)) for seed in (0, 1)]


def inputs(count: int = 3) -> np.ndarray:
    noise = np.random.default_rng(7).standard_normal((count, LENGTH, 2))
    return (np.cumsum(noise, axis=1) / 4).astype(np.float32)


@torch.inference_mode()
def answers(model: torch.nn.Module, x: np.ndarray) -> np.ndarray:
    return model(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize("prefix", ["", "model.", "module.net.0."])
@pytest.mark.parametrize("version", ["version 4", "version 3"])
@pytest.mark.parametrize("kernels", [exact, fitted, lambda: exact(l_kernel=32), lambda: exact(s=1)])
@pytest.mark.parametrize("prenorm", [False, True])
def test_the_built_model_is_the_network_by_definition(tmp_path: Path, version, prefix, kernels, prenorm) -> None:
    """Of the diagonal form closely; of the file itself as closely as that is fitted."""
    arrays = network(kernels(), version, prefix)
    save_file(dict(arrays), tmp_path / "s4.safetensors")
    source, x = open_file(tmp_path / "s4.safetensors", {"prenorm": prenorm}), inputs()
    found, diagonal = (
        answers(source.build().double(), x.astype(float)),
        {n: source.arrays[n] for n in source.arrays.shapes},
    )
    np.testing.assert_allclose(found, run_network(diagonal, x, prefix, prenorm), rtol=1e-4, atol=1e-4)
    tolerance = 3e-2 if kernels is fitted else 1e-3
    np.testing.assert_allclose(found, run_network(arrays, x, prefix, prenorm), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("prefix", ["", "model."])
def test_plain_s4d_under_a_prefix(tmp_path: Path, prefix: str) -> None:
    plain = initialize(S4DModel(S4DConfig(d_input=2, d_output=3, h=H, n=8, layers=2))).eval()
    weights = {prefix + name: tensor.numpy() for name, tensor in plain.state_dict().items()}
    save_file(weights, tmp_path / "s4d.safetensors")
    model = aireprune.load(tmp_path / "s4d.safetensors", {"prenorm": False})
    assert np.array_equal(answers(model, inputs()), answers(plain, inputs()))


@pytest.mark.parametrize(
    "config",
    [{}, {"disc": "bilinear"}, {"real_transform": "softplus", "dt_transform": "softplus"}, {"bandlimit": 0.1}],
)
@pytest.mark.parametrize("untied", [False, True])
def test_the_kernel_is_the_familys_system(tmp_path: Path, config, untied: bool) -> None:
    """The repository's diagonal kernel in all its variants, against the family's modes."""
    kernels = [by_role(repository(np.random.default_rng(seed), H, H, 4, untied=untied)) for seed in (0, 1)]
    save_file(dict(network(kernels, "version 4", "net.")), tmp_path / "s4d.safetensors")
    source = open_file(tmp_path / "s4d.safetensors", {**config, "prenorm": False})
    model = source.build()
    for number, layer in enumerate(model.s4_layers):
        lam, w = layer.kernel.discrete()
        system = source.system(number, "this")
        np.testing.assert_allclose(lam.detach().numpy(), system.lam, rtol=1e-9)
        gains = 2 * system.c[:, 0, 0] * system.b[..., 0]
        np.testing.assert_allclose(w.detach().numpy(), gains, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("version", ["version 4", "version 3"])
@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_calibrated_files_are_written_under_their_own_names(tmp_path: Path, version: str, reduce: str) -> None:
    """What is on disk is the calibrated model, by the definition of the network."""
    arrays = network(exact(l_kernel=32), version, "model.")
    save_file(dict(arrays), tmp_path / "s4.safetensors")
    (tmp_path / "s4.json").write_text(json.dumps({"prenorm": False}))
    choices = {"ratio": 0.4, "reduce": reduce, "calibrate": inputs(24)}
    plan = aireprune.prune_file(tmp_path / "s4.safetensors", tmp_path / "small.safetensors", **choices)
    small = load_file(tmp_path / "small.safetensors")
    assert small.keys() == arrays.keys()
    loaded = aireprune.load(tmp_path / "small.safetensors")
    x = inputs()
    np.testing.assert_allclose(answers(loaded, x), run_network(small, x, "model."), rtol=2e-3, atol=2e-3)
    full = run_network(arrays, x, "model.")
    assert np.linalg.norm(answers(loaded, x) - full) < 0.5 * np.linalg.norm(full - full.mean(1, keepdims=True))
    assert plan.calibrated == 24
    assert any(not np.array_equal(small[name], values) for name, values in arrays.items() if name.endswith("D"))
    assert aireprune.certify(tmp_path / "small.safetensors").violations == []


@pytest.mark.parametrize("kernels", [exact, fitted, lambda: exact(s=1)])
def test_a_folder_in_our_own_format(tmp_path: Path, kernels) -> None:
    save_file(dict(network(kernels(), "version 3", "model.")), tmp_path / "s4.safetensors")
    plan = aireprune.prune_file(
        tmp_path / "s4.safetensors", tmp_path / "own", ratio=0.4, reduce="balanced", config={"prenorm": True}
    )
    folder, memory = (
        aireprune.load(tmp_path / "own"),
        aireprune.prune(tmp_path / "s4.safetensors", plan, config={"prenorm": True}),
    )
    assert np.array_equal(answers(folder, inputs()), answers(memory, inputs()))
    assert folder.config.prenorm
    again = aireprune.prune_file(tmp_path / "own", tmp_path / "smaller", ratio=0.5)
    assert again.kept <= again.states / 2 + 2
    assert aireprune.load(tmp_path / "smaller").config.modes != folder.config.modes


def test_another_network_is_refused_by_name(tmp_path: Path) -> None:
    arrays = network(exact(), "version 4")
    save_file(
        {**arrays, "s4_layers.1.input_gate.0.weight": np.ones((H, H), np.float32)}, tmp_path / "gated.safetensors"
    )
    with pytest.raises(AireError, match=r"s4_layers\.1\.input_gate\.0\.weight is not part of the network"):
        aireprune.load(tmp_path / "gated.safetensors", {"prenorm": False})
    renamed = {name.replace("s4_layers", "blocks"): values for name, values in arrays.items()}
    save_file(renamed, tmp_path / "blocks.safetensors")
    with pytest.raises(AireError, match=r"blocks\.0\.layer\.kernel is not part of the network"):
        aireprune.load(tmp_path / "blocks.safetensors", {"prenorm": False})
    save_file(dict(arrays), tmp_path / "s4.safetensors")
    with pytest.raises(AireError, match="even number"):
        aireprune.load(tmp_path / "s4.safetensors", {"bidirectional": True})
    aireprune.prune_file(tmp_path / "gated.safetensors", tmp_path / "small.safetensors", ratio=0.5)
