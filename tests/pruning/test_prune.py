"""A deployer's file: prune it as it is, get the same kind back, and reload it. Own models, public checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_models
import torch
from foreign_models import MODELS
from safetensors.torch import save_file
from shared_data import shared

import aireprune
from aireprune import embedded
from aireprune.errors import AireError, Notice
from aireprune.files import open_checkpoint
from aireprune.models.mamba import MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d import S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s4d_config import S4DConfig
from aireprune.pruning import source as source_module
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
    source.with_suffix(".json").write_text(small_models.POST_NORM)
    before = source.read_bytes()
    target = tmp_path / f"out{suffix}"
    plan = aireprune.prune_file(source, target, ratio=0.6, reduce="truncate", layout=layout, granularity=granularity)
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
        post_norm = {"prenorm": False}
        assert (aireprune.load(path, post_norm)(x).argmax(-1).numpy() == y).mean() > 0.75
        plan = aireprune.prune_file(path, tmp_path / "out.pth", ratio=0.3, reduce="truncate", config=post_norm)
        masked = aireprune.prune(path, plan, mask=True, config=post_norm)(x)
        reloaded = aireprune.load(tmp_path / "out.pth")(x)
    assert torch.linalg.norm(reloaded - masked) < 1e-5 * torch.linalg.norm(masked)


def test_balanced_and_calibrated_by_name(tmp_path: Path) -> None:
    """The embedded model at 70 %: plain pruning fails, this does not; the file says how it was made."""
    task, full = embedded.digits(), aireprune.load(embedded.MODEL)
    given = task.inputs(task.test.x[:24])
    small = aireprune.prune(full, ratio=0.7, reduce="balanced", calibrate=given)
    seen = task.inputs(task.test.x[200:260])
    assert small_models.distance(full, small, seen) < 0.2 * small_models.distance(
        full, aireprune.prune(full, ratio=0.7), seen
    )
    assert small.plan.calibrated == 24
    assert small.plan.certificate is None
    np.save(tmp_path / "digits.npy", given)
    plan = aireprune.prune_file(
        embedded.MODEL, tmp_path / "out", ratio=0.7, reduce="balanced", calibrate=tmp_path / "digits.npy"
    )
    assert plan.calibrated == 24
    assert small_models.distance(small, aireprune.load(tmp_path / "out"), seen[:8]) < 1e-6


@pytest.mark.parametrize("name", ["s4d", "mamba"])
def test_a_torch_file_stays_one(name: str, tmp_path: Path) -> None:
    full = small_models.MODELS[name]()
    torch.save(full.state_dict(), tmp_path / "full.pth")
    (tmp_path / "full.json").write_text(small_models.POST_NORM)
    options = {"reduce": "balanced"} if name == "s4d" else {"method": "damage-calibrated"}
    aireprune.prune_file(
        tmp_path / "full.pth", tmp_path / "small.pth", ratio=0.5, calibrate=small_models.inputs(), **options
    )
    small = aireprune.prune(
        aireprune.load(tmp_path / "full.pth"), ratio=0.5, calibrate=small_models.inputs(), layout="uniform", **options
    )
    assert small_models.distance(small, aireprune.load(tmp_path / "small.pth"), small_models.inputs(4, 9)) < 1e-8


def test_the_source_is_opened_once(tmp_path, monkeypatch):
    """Also with a balanced and calibrated reduction: one walk from file to file."""
    torch.save(small_models.s4d().state_dict(), tmp_path / "full.pth")
    (tmp_path / "full.json").write_text(small_models.POST_NORM)
    opened = []
    monkeypatch.setattr(
        source_module, "open_checkpoint", lambda *given: opened.append(given) or open_checkpoint(*given)
    )
    aireprune.prune_file(
        tmp_path / "full.pth", tmp_path / "out.pth", ratio=0.5, reduce="balanced", calibrate=small_models.inputs()
    )
    assert len(opened) == 1


def test_covariances_that_are_given_are_used_when_calibrating(tmp_path):
    """They used to be dropped, and measured ones taken instead."""
    model = small_models.s5()
    aireprune.save(model, tmp_path / "model")
    seen = np.zeros(16)
    seen[[1, 4, 9, 12]] = 1.0  # Re and Im of modes 1 and 4
    covariances = [np.diag(seen + 1e-9)] * 2
    choices = {"ratio": 0.75, "reduce": "balanced", "covariances": covariances, "calibrate": small_models.inputs()}
    aireprune.prune_file(tmp_path / "model", tmp_path / "out", **choices)
    small = aireprune.load(tmp_path / "out")
    for layer, (before, after) in enumerate(zip(model.layers, small.layers, strict=True)):
        old, new = (np.sort(np.abs(block.seq.discrete()[0].detach().numpy())) for block in (before, after))
        wanted = np.sort(np.abs(model.layers[layer].seq.discrete()[0].detach().numpy()[[1, 4]]))
        assert len(old) == 8
        np.testing.assert_allclose(new, wanted, rtol=1e-3)


@pytest.mark.parametrize("calibrate", [None, "inputs"])
def test_a_model_pruned_from_a_path_knows_its_original(tmp_path, calibrate):
    aireprune.save(small_models.s5(), tmp_path / "model")
    given = {} if calibrate is None else {"calibrate": small_models.inputs()}
    small = aireprune.prune(tmp_path / "model", ratio=0.5, **given)
    assert small.plan.source == str((tmp_path / "model").resolve())
    assert aireprune.certify(small).layers


def test_notices_reach_python(tmp_path):
    """A Mamba file without a configuration: what is assumed is said."""
    torch.save(mamba().state_dict(), tmp_path / "full.pth")
    with pytest.warns(Notice, match="no configuration came with"):
        aireprune.prune_file(tmp_path / "full.pth", tmp_path / "out.pth", ratio=0.5)
    with pytest.warns(Notice, match="no configuration came with"):
        aireprune.prune(tmp_path / "full.pth", ratio=0.5)


def test_a_hugging_face_folder_is_calibrated_as_its_model_is(tmp_path):
    full = MODELS["mamba"]()
    full.save_pretrained(tmp_path / "hf")
    tokens = np.random.default_rng(0).integers(1, 40, (24, 20))
    choices = {"ratio": 0.5, "layout": "uniform", "calibrate": tokens}
    aireprune.prune_file(tmp_path / "hf", tmp_path / "out", **choices)
    wanted = aireprune.prune(full, **choices)
    found = aireprune.load(tmp_path / "out")
    for name, value in wanted.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value, msg=name)


def test_the_checkpoints_own_keys_are_not_touched(tmp_path):
    """A configuration may have a layout or granularity of its own, which is not ours."""
    torch.save(s4d().state_dict(), tmp_path / "full.pth")
    (tmp_path / "full.json").write_text('{"layout": "theirs", "granularity": "theirs"}')
    aireprune.prune_file(tmp_path / "full.pth", tmp_path / "out.pth", ratio=0.5, layout="uniform", granularity="state")
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["layout"], written["granularity"]) == ("theirs", "theirs")


def test_an_unknown_argument_is_named():
    with pytest.raises(AireError, match="no argument ration="):
        aireprune.prune(s4d(), ration=0.5)


def s5_without_configuration(tmp_path, **changes):
    model = small_models.s5(**changes)
    tensors = {name: tensor for name, tensor in model.state_dict().items()}
    torch.save(tensors, tmp_path / "full.pth")
    return model


@pytest.mark.parametrize("conj_sym", [True, False])
def test_conjugate_symmetry_is_inferred_once_and_written_down(tmp_path, conj_sym):
    """So few poles stay that nobody could tell any more, and the output's configuration says it."""
    s5_without_configuration(tmp_path, conj_sym=conj_sym)
    aireprune.prune_file(tmp_path / "full.pth", tmp_path / "out.pth", ratio=0.9, reduce="balanced")
    assert json.loads((tmp_path / "out.json").read_text())["conj_sym"] is conj_sym
    known = {"activation": "half_glu2", "discretization": "zoh", "prenorm": True, "mode": "pool"}
    (tmp_path / "out.json").write_text(json.dumps({**json.loads((tmp_path / "out.json").read_text()), **known}))
    assert aireprune.load(tmp_path / "out.pth").config.conj_sym is conj_sym
    (layer, *_) = source_module.open_file(tmp_path / "out.pth").layers
    assert layer.options.conj_sym is conj_sym


def test_the_family_and_the_model_agree_on_conjugate_symmetry(tmp_path):
    """A full spectrum in a file without conj_sym: the family used to assume halves, the model inferred the truth."""
    model = s5_without_configuration(tmp_path, conj_sym=False)
    known = {"activation": "half_glu2", "discretization": "zoh", "prenorm": True, "mode": "pool"}
    file = source_module.open_file(tmp_path / "full.pth", known)
    assert [layer.options.conj_sym for layer in file.layers] == [False, False]
    x = torch.from_numpy(small_models.inputs())
    with torch.no_grad():
        torch.testing.assert_close(file.build()(x), model(x))


def test_a_layer_that_would_be_destroyed_is_refused(tmp_path):
    """A plan that keeps the weak half of states that nothing can stand in for."""
    model = small_models.s5()
    with torch.no_grad():
        for block in model.layers:
            block.seq.C[:, :4] *= 1e3
    aireprune.save(model, tmp_path / "full")
    plan = aireprune.plan(tmp_path / "full", ratio=0.5, reduce="refit")
    plan = replace(plan, layers=tuple(replace(layer, kept=(4, 5, 6, 7)) for layer in plan.layers))
    with pytest.raises(AireError, match=r"keeps 4 of 8 states, but reduce='refit' would lose \d+% of it.*force=True"):
        aireprune.prune_file(tmp_path / "full", tmp_path / "out", plan)
    assert not (tmp_path / "out").exists()
    aireprune.prune_file(tmp_path / "full", tmp_path / "out", plan, force=True)
    plain = replace(plan, reduce="truncate")
    aireprune.prune_file(tmp_path / "full", tmp_path / "plain", plain)


@pytest.mark.parametrize("suffix", ["", ".pth"])
def test_pruning_twice_removes_living_states_twice(tmp_path, suffix):
    """The second ratio used to be spent on the silent modes that fill up rows."""
    torch.save(s4d().state_dict(), tmp_path / "full.pth")
    (tmp_path / "full.json").write_text(small_models.POST_NORM)
    first = aireprune.prune_file(tmp_path / "full.pth", tmp_path / f"one{suffix}", ratio=0.7)
    second = aireprune.prune_file(tmp_path / f"one{suffix}", tmp_path / f"two{suffix}", ratio=0.5)
    assert second.states == first.kept
    assert second.kept == pytest.approx(first.kept / 2, abs=1)
    assert second.achieved_ratio == pytest.approx(0.5, abs=0.05)
