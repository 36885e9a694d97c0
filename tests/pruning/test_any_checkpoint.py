"""A deployer's file: prune it as it is, get the same kind back, and reload it. Own models, public checkpoints."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from shared_data import shared

import aireprune
from aireprune.models.mamba import MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d import S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s4d_config import S4DConfig
from aireprune.tasks import Split, load_task
from aireprune.tasks.evaluate import evaluate


def s4d():
    model = initialize_s4d(S4DModel(S4DConfig(d_input=3, d_output=4, h=6, n=16, layers=3)), 0)
    with torch.no_grad():
        for layer in model.s4_layers:
            layer.kernel.log_A_real.add_(torch.randn_like(layer.kernel.log_A_real))
    return model.eval()


def mamba():
    torch.manual_seed(0)
    model = initialize_mamba(MambaModel(MambaConfig(d_input=3, d_output=4, d_model=12, layers=3, d_state=8)), 0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("x_proj.weight"):
                parameter.mul_(1 + torch.rand(parameter.shape[0], 1))
            if name.endswith("layers.1.A_log"):
                parameter.add_(2)
    return model.eval()


def inputs():
    return torch.randn(2, 30, 3, generator=torch.Generator().manual_seed(0))


CASES = [
    (s4d, layout, granularity) for layout in ("adaptive", "uniform", "padded") for granularity in ("mode", "state")
] + [(mamba, layout, "mode") for layout in ("adaptive", "uniform", "padded")]


@pytest.mark.parametrize(("build", "layout", "granularity"), CASES)
@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ""])
def test_masked_is_removed_is_reloaded(tmp_path, build, layout, granularity, suffix):
    model = build()
    source = tmp_path / f"in{suffix or '.pth'}"
    if suffix == ".safetensors":
        save_file(model.state_dict(), source)
    else:
        torch.save({"model": model.state_dict(), "epoch": 7, "optimizer": {"state": {}}}, source)
    before = source.read_bytes()
    target = tmp_path / f"out{suffix}"
    plan = aireprune.prune_file(source, target, ratio=0.6, layout=layout, granularity=granularity)
    masked, removed = aireprune.prune(model, plan, mask=True), aireprune.prune(model, plan)
    reloaded = aireprune.load(target)
    with torch.no_grad():
        full, expected = model(inputs()), masked(inputs())
        for other in (removed, reloaded):
            assert torch.linalg.norm(other(inputs()) - expected) < 1e-5 * torch.linalg.norm(expected)
        assert torch.linalg.norm(full - expected) > 1e-4 * torch.linalg.norm(full)
    stored = reloaded.config.states or [reloaded.config.n // 2 if build is s4d else reloaded.config.d_state]
    if layout != "adaptive":
        assert len(set(stored)) == 1
    if layout == "uniform":  # floor(0.4 * 8) of every row
        assert set(stored) == {3}
    assert plan.kept == pytest.approx(0.4 * plan.states, abs=plan.states * 0.05)
    assert source.read_bytes() == before
    if suffix == ".pth":
        saved = torch.load(target, weights_only=True)
        assert saved["epoch"] == 7
        assert "optimizer" not in saved
        assert json.loads((tmp_path / "out.plan.json").read_text())["schema"] == 1


def test_the_public_mamba(tmp_path):
    shared("mnist.npz")
    path = shared("checkpoints/mamba_smnist.pth")
    model, task = aireprune.load(path), load_task("smnist")
    part = Split(task.test.x[:300], task.test.y[:300])
    assert evaluate(model, task, part) > 0.97
    aireprune.prune_file(path, tmp_path / "out.pth", ratio=0.25)
    assert evaluate(aireprune.load(tmp_path / "out.pth"), task, part) > 0.9


def test_the_public_s4d(tmp_path):
    path, images = shared("checkpoints/s4d_scifar_rgb.pth"), shared("cifar10_rgb_test2000.npz")
    with np.load(images, allow_pickle=False) as data:
        x, y = data["x"][:60].reshape(-1, 1024, 3), data["y"][:60]
    x = (x / 255 - np.array([0.4914, 0.4822, 0.4465])) / np.array([0.2023, 0.1994, 0.2010])
    x = torch.from_numpy(x.astype(np.float32))
    with torch.no_grad():
        assert (aireprune.load(path)(x).argmax(-1).numpy() == y).mean() > 0.75
        plan = aireprune.prune_file(path, tmp_path / "out.pth", ratio=0.3)
        masked, reloaded = aireprune.prune(path, plan, mask=True)(x), aireprune.load(tmp_path / "out.pth")(x)
    assert torch.linalg.norm(reloaded - masked) < 1e-5 * torch.linalg.norm(masked)
