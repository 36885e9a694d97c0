"""Calibration: least squares against lstsq, covariances against brute force, the walk, and what it does to models."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import aireprune
from aireprune import AireError, embedded
from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.damage import elimination_losses, measured_scores
from aireprune.calibration.inputs import Inputs, read_inputs
from aireprune.calibration.moments import Moments, MomentsWithSkip, best_change
from aireprune.calibration.readout import calibrate
from aireprune.calibration.stack import open_stack
from aireprune.families import FAMILIES
from aireprune.models.mamba import MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d import S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5 import S5Model
from aireprune.models.s5 import initialize as initialize_s5
from aireprune.models.s5_config import S5Config
from aireprune.pruning.source import open_source

LENGTH = 40


def s5(**changes: object) -> S5Model:
    config = {"d_input": 2, "d_output": 3, "h": 6, "n": 16, "layers": 2, "blocks": 1, "activation": "half_glu2"}
    return initialize_s5(S5Model(S5Config.from_dict({**config, **changes}))).eval()


def s4d() -> S4DModel:
    return initialize_s4d(S4DModel(S4DConfig(d_input=2, d_output=3, h=6, n=16, layers=2))).eval()


def mamba() -> MambaModel:
    config = MambaConfig(d_input=2, d_output=3, d_model=6, layers=2, d_state=8)
    return initialize_mamba(MambaModel(config), 1).eval()


MODELS = {
    "s5": s5,
    "s5 post-norm": lambda: s5(prenorm=False, batchnorm=True, bidirectional=False),
    "s5 two ways": lambda: s5(bidirectional=True, batchnorm=True),
    "s4d": s4d,
    "mamba": mamba,
}


def inputs(count: int = 12, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((count, LENGTH, 2))
    return np.cumsum(noise, axis=1).astype(np.float32) / 4


@torch.inference_mode()
def distance(full: nn.Module, other: nn.Module, x: np.ndarray) -> float:
    values = torch.from_numpy(x)
    return float((full(values) - other(values)).pow(2).mean())


@pytest.mark.parametrize("name", MODELS)
def test_calibration_brings_the_model_closer(name: str) -> None:
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5)
    before = {key: value.clone() for key, value in reduced.state_dict().items()}
    fitted = calibrate(full, reduced, inputs())
    assert distance(full, fitted, inputs()) < distance(full, reduced, inputs())
    assert all(torch.equal(before[key], value) for key, value in reduced.state_dict().items())


@pytest.mark.parametrize("name", MODELS)
def test_at_ratio_zero_nothing_changes(name: str) -> None:
    full = MODELS[name]()
    fitted = calibrate(full, aireprune.prune(full, ratio=0.0), inputs())
    for key, value in full.state_dict().items():
        torch.testing.assert_close(fitted.state_dict()[key], value, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_without_memory_the_result_is_the_same(name: str) -> None:
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5)
    kept, again = (calibrate(full, reduced, inputs(), memory=memory) for memory in (2**30, 0))
    for key, value in kept.state_dict().items():
        torch.testing.assert_close(again.state_dict()[key], value)


def test_the_solution_is_that_of_lstsq() -> None:
    rng = np.random.default_rng(1)
    x, r = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    moments = Moments.zeros(4, 3)
    for rows in (slice(0, 20), slice(20, 50)):
        moments.add(torch.from_numpy(x[rows]), torch.from_numpy(r[rows]))
    expected = np.linalg.lstsq(x, r, rcond=None)[0]
    np.testing.assert_allclose(moments.solve(0.0).numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(float(moments.loss(moments.solve(0.0))), ((r - x @ expected) ** 2).sum())
    scale = np.diag(np.linalg.norm(x, axis=0)) * np.sqrt(0.1)
    ridge = np.linalg.lstsq(np.r_[x, scale], np.r_[r, np.zeros((4, 3))], rcond=None)[0]
    np.testing.assert_allclose(moments.solve(0.1).numpy(), ridge, rtol=1e-9)


def test_a_skip_of_its_own_for_every_output() -> None:
    rng = np.random.default_rng(2)
    x, v, r = rng.standard_normal((60, 4)), rng.standard_normal((60, 3)), rng.standard_normal((60, 3))
    moments = MomentsWithSkip.empty(4, 3)
    moments.add_with_skip(*(torch.from_numpy(part) for part in (x, v, r)))
    change = moments.solve(0.0).numpy()
    loss = 0.0
    for k in range(3):
        own = np.c_[x, v[:, k]]
        expected = np.linalg.lstsq(own, r[:, k], rcond=None)[0]
        np.testing.assert_allclose(change[:, k], expected, rtol=1e-9)
        loss += ((r[:, k] - own @ expected) ** 2).sum()
    np.testing.assert_allclose(float(moments.loss(torch.from_numpy(change))), loss)


def test_a_change_that_does_not_help_held_out_data_is_not_made() -> None:
    fit, held = Moments.zeros(1, 1), Moments.zeros(1, 1)
    one = torch.ones(5, 1)
    fit.add(one, one)
    held.add(one, -one)
    assert float(best_change(fit, held)) == 0.0
    assert float(best_change(fit, None)) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("name", ["s5", "s5 two ways", "s4d"])
def test_measured_covariances_are_those_of_the_states(name: str) -> None:
    model = MODELS[name]()
    x = inputs(5)
    (layer, *_), source = open_source(model).layers, open_source(model)
    system = FAMILIES[layer.family].system(layer, source.arrays)  # type: ignore[attr-defined]
    seen: list[torch.Tensor] = []
    first = model.layers[0].seq if isinstance(model, S5Model) else model.s4_layers[0]
    handle = first.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        model(torch.from_numpy(x))
    handle.remove()
    u = seen[0].numpy().astype(np.float64)
    total, tokens = 0.0, 0
    for direction in range(system.directions):
        run = u if direction == 0 else u[:, ::-1]
        state = np.zeros((len(x), *system.log_radius.shape), complex)
        for t in range(LENGTH):
            drive = run[:, t] @ system.b.T if not system.batch else run[:, t, :, None] * system.b[..., 0]
            state = system.lam * state + drive
            real = np.concatenate([state.real, state.imag], -1)
            total = total + np.einsum("b...i,b...j->...ij", real, real)
            tokens += len(x)
    measured = measured_covariances(model, source, read_inputs(x))[0]
    np.testing.assert_allclose(measured, total / tokens, rtol=1e-4, atol=1e-6 * np.abs(measured).max())


def test_damage_is_the_error_after_the_refit() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((80, 7)), rng.standard_normal((3, 2))  # 3 states of 2 features, and 1 that always stays
    losses = elimination_losses(torch.from_numpy(x.T @ x), torch.from_numpy(w), ridge=0.0)
    first = int(np.argmin(losses))
    by_hand = []
    for j in range(3):
        stay = [c for c in range(7) if c not in (2 * j, 2 * j + 1)]
        lost = x[:, 2 * j : 2 * j + 2] @ w[j]
        by_hand.append(((lost - x[:, stay] @ np.linalg.lstsq(x[:, stay], lost, rcond=None)[0]) ** 2).sum())
    assert first == int(np.argmin(by_hand))
    assert losses[first] == pytest.approx(by_hand[first])


def test_balanced_and_calibrated_by_name(tmp_path: Path) -> None:
    """The embedded model at 70 %: plain pruning fails, this does not; the file says how it was made."""
    task, full = embedded.digits(), aireprune.load(embedded.MODEL)
    given = task.inputs(task.test.x[:24])
    small = aireprune.prune(full, ratio=0.7, reduce="balanced", calibrate=given)
    seen = task.inputs(task.test.x[200:260])
    assert distance(full, small, seen) < 0.2 * distance(full, aireprune.prune(full, ratio=0.7), seen)
    assert small.plan.calibrated == 24
    assert small.plan.certificate is None
    np.save(tmp_path / "digits.npy", given)
    plan = aireprune.prune_file(
        embedded.MODEL, tmp_path / "out", ratio=0.7, reduce="balanced", calibrate=tmp_path / "digits.npy"
    )
    assert plan.calibrated == 24
    assert distance(small, aireprune.load(tmp_path / "out"), seen[:8]) < 1e-6


@pytest.mark.parametrize("name", ["s4d", "mamba"])
def test_a_torch_file_stays_one(name: str, tmp_path: Path) -> None:
    full = MODELS[name]()
    torch.save(full.state_dict(), tmp_path / "full.pth")
    options = {"reduce": "balanced"} if name == "s4d" else {"method": "damage-calibrated"}
    aireprune.prune_file(tmp_path / "full.pth", tmp_path / "small.pth", ratio=0.5, calibrate=inputs(), **options)
    small = aireprune.prune(aireprune.load(tmp_path / "full.pth"), ratio=0.5, calibrate=inputs(), **options)
    assert distance(small, aireprune.load(tmp_path / "small.pth"), inputs(4, 9)) < 1e-8


def test_damage_needs_data() -> None:
    with pytest.raises(AireError, match="calibrate="):
        aireprune.plan(mamba(), method="aire-calibrated", ratio=0.5)
    with pytest.raises(AireError, match="selective"):
        aireprune.prune(s4d(), method="aire-calibrated", ratio=0.5, calibrate=inputs())


def test_sources_of_inputs(tmp_path: Path) -> None:
    x = inputs(8)
    np.save(tmp_path / "a.npy", x[:5])
    np.savez(tmp_path / "b.npz", x=x[5:], y=np.zeros(3))
    np.testing.assert_array_equal(read_inputs(tmp_path, 7).values, x[:7])
    np.testing.assert_array_equal(read_inputs(x[..., 0], 3).values, x[:3, :, :1])
    assert read_inputs(np.zeros((2, 5), int)).values.dtype == np.int64
    split = Inputs(x)
    assert [split.held_out(number) for number in range(split.batches)] == [False, False, False, True]
    for wrong in (np.zeros((2, 3, 4, 5)), np.zeros((0, 4)), tmp_path / "nowhere", np.full((1, 4), np.nan)):
        with pytest.raises(AireError):
            read_inputs(wrong)


def test_measured_energy_is_the_energy_of_the_states_own_output() -> None:
    """Against running the layer with all but one state's C rows silenced, and D off."""
    model = mamba()
    x = inputs()
    scores = measured_scores(model, read_inputs(x), "measured-energy")
    alone = copy.deepcopy(model)
    layer = alone.layers[0]
    n = layer.states
    energies = []
    with torch.no_grad():
        layer.D.zero_()
        kept = layer.x_proj.weight[layer.rank + n :].clone()
        u = open_stack(model).read(0, open_stack(model).encode(torch.as_tensor(x)[:16]))
        for j in range(n):
            layer.x_proj.weight[layer.rank + n :] = 0
            layer.x_proj.weight[layer.rank + n + j] = kept[j]
            y = layer(u)
            if layer.out_proj.bias is not None:
                y = y - layer.out_proj.bias
            energies.append(float(y.square().sum()))
    ratio = scores[0] / np.array(energies)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)
