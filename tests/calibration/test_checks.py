"""Calibration inputs that do not fit the model, and calibrations that do not help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_models import MODELS, inputs, s5

import aireprune
from aireprune import embedded
from aireprune.calibration import checks
from aireprune.calibration.checks import check_inputs
from aireprune.calibration.comparison import Distance, Fit, measure_fit
from aireprune.calibration.inputs import judging, read_inputs
from aireprune.calibration.readout import calibrate
from aireprune.calibration.subject import find_subject
from aireprune.errors import AireError, Notice
from aireprune.pruning.source import open_module


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((9, 40, 2)), "all the same number"),
        (np.ones((9, 40, 3)), "3 values per step, but the model takes 2"),
        (inputs().transpose(0, 2, 1), r"channels come last"),
        (np.arange(80).reshape(2, 40) % 7, "token 6, but the model knows only 2"),
        (-np.ones((2, 40), int), "token -1"),
        (np.full((9, 40, 2), 1e300), "not finite in single precision"),
        (np.zeros((0, 40, 2)), "is empty"),
        (np.zeros((9, 0, 2)), "is empty"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(given: np.ndarray, message: str, tmp_path: Any) -> None:
    for name in ("s5", "mamba"):
        with pytest.raises(AireError, match=message):
            aireprune.prune(MODELS[name](), ratio=0.5, calibrate=given)


def test_inputs_whose_outputs_are_not_finite_are_refused() -> None:
    model = MODELS["s4d"]()
    with torch.no_grad():
        model.decoder.weight.mul_(1e30)
    with pytest.raises(AireError, match="outputs are not finite"):
        check_inputs(model, read_inputs(1e20 * inputs()))


def test_few_sequences_are_remarked_on() -> None:
    with pytest.warns(Notice, match="only 3 calibration sequences"):
        aireprune.prune(MODELS["s4d"](), ratio=0.5, calibrate=inputs(3))


@pytest.mark.parametrize("postnorm", [False, True])
def test_batch_norms_know_the_range(postnorm: bool) -> None:
    model = s5(batchnorm=True, prenorm=not postnorm).train()
    with torch.no_grad():
        for _ in range(80):
            model(torch.from_numpy(inputs(32)))
    model.eval()
    assert check_inputs(model, read_inputs(inputs(16, seed=5))) == []
    with pytest.raises(AireError, match="another range"):
        check_inputs(model, read_inputs(255 * inputs(16)))
    (remark,) = check_inputs(model, read_inputs(0.45 * inputs(16)))
    assert "another range" in remark


def test_the_embedded_model_is_told_pixels_from_normalised_ones() -> None:
    task, model = embedded.digits(), aireprune.load(embedded.MODEL)
    digits = task.inputs(task.test.x[:16])
    assert check_inputs(model, read_inputs(digits)) == []
    pixels = task.test.x[:16].reshape(16, 784).astype(np.float32)
    with pytest.raises(AireError, match="Normalise them as in training"):
        check_inputs(model, read_inputs(pixels))
    assert check_inputs(model, read_inputs(pixels / 255))


def test_a_fit_that_does_not_help_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    full = MODELS["s4d"]()
    monkeypatch.setattr(checks, "measure_fit", lambda *given: Fit(Distance(0.1), Distance(0.2)))
    with pytest.warns(Notice, match="did not help"):
        small = aireprune.prune(full, ratio=0.5, reduce="truncate", calibrate=inputs())
    assert small.plan.calibrated == 0
    plain = aireprune.prune(full, ratio=0.5, reduce="truncate")
    assert all(torch.equal(value, plain.state_dict()[name]) for name, value in small.state_dict().items())


def test_the_fit_is_the_distance_of_held_out_outputs() -> None:
    full, given = MODELS["s4d"](), read_inputs(inputs(16))
    reduced = aireprune.prune(full, ratio=0.5)
    subject = find_subject(open_module(full), given)
    fitted = calibrate(subject, open_module(reduced), given)
    found = measure_fit(subject, reduced, fitted, given)
    held = [given[number].first for number in judging(given)]
    with torch.no_grad():
        wanted = torch.cat([full(x) for x in held])
        distances = [
            float((wanted - torch.cat([m(x) for x in held])).norm() / wanted.norm()) for m in (reduced, fitted)
        ]
    assert found.before.output == pytest.approx(distances[0], rel=1e-4)
    assert found.after.output == pytest.approx(distances[1], rel=1e-4)
    assert found.helped
