"""Layers of other people's models: found where they are called, recognised by what they compute, fitted in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from foreign_models import MODELS
from small_models import MODELS as OWN
from small_models import inputs
from stranger_models import STRANGERS, Network
from torch import Tensor, nn

import aireprune
from aireprune import AireError
from aireprune.calibration.calls import answer
from aireprune.calibration.comparison import measure_fit
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.readout import calibrate
from aireprune.calibration.subject import find_subject
from aireprune.pruning.source import open_module


def apart(full: nn.Module, other: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        a, b = answer(full(x)), answer(other(x))
    return float((a - b).norm() / a.norm())


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
@pytest.mark.parametrize("name", STRANGERS)
def test_calibration_brings_strangers_closer(name: str) -> None:
    full, x = STRANGERS[name](), torch.from_numpy(inputs(24))
    unseen, before = torch.from_numpy(inputs(8, seed=1)), {k: v.clone() for k, v in full.state_dict().items()}
    plain = aireprune.prune(full, ratio=0.5, reduce="truncate", layout="adaptive")
    fitted = aireprune.prune(full, ratio=0.5, reduce="truncate", layout="adaptive", calibrate=x.split(4))
    assert fitted.plan.calibrated == 24
    assert apart(full, fitted, unseen) < 0.7 * apart(full, plain, unseen)
    assert all(torch.equal(value, before[key]) for key, value in full.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in full.modules())


def test_balancing_with_measured_covariances_is_better_still() -> None:
    full, x = STRANGERS["network"](), torch.from_numpy(inputs(24))
    unseen = torch.from_numpy(inputs(8, seed=1))
    plain, fitted = (
        aireprune.prune(full, ratio=0.6, reduce="balanced", layout="adaptive", calibrate=given)
        for given in (None, x.split(4))
    )
    assert apart(full, fitted, unseen) < 0.3 * apart(full, plain, unseen)


def test_sites_of_a_network() -> None:
    full = STRANGERS["network"]()
    subject = find_subject(open_module(full), read_inputs(inputs()))
    assert [(site.module, site.channels_first, site.linear) for site in subject.sites] == [
        ("parts.first", True, "parts.first.output_linear.0"),
        ("parts.second", True, "parts.second.output_linear.0"),
        ("lru", False, None),
    ]


def test_a_module_that_computes_something_else_is_found_out() -> None:
    torch.manual_seed(3)
    scaled = Network(step=1.1).eval()
    with pytest.raises(AireError, match=r"Layer parts\.first\.kernel cannot be calibrated"):
        aireprune.prune(scaled, ratio=0.5, calibrate=inputs())


@pytest.mark.parametrize("name", MODELS)
def test_sites_of_transformers_models(name: str) -> None:
    full, tokens = MODELS[name](), torch.randint(1, 40, (12, 16), generator=torch.Generator().manual_seed(0))
    batches = [{"input_ids": part, "attention_mask": torch.ones_like(part)} for part in tokens.split(3)]
    subject = find_subject(open_module(full), read_inputs(batches))
    assert [site.module for site in subject.sites] == [layer.name for layer in subject.layers]
    assert all(site.gates and site.linear == f"{site.module}.out_proj" for site in subject.sites)
    fitted = aireprune.prune(full, ratio=0.5, layout="uniform", calibrate=batches)
    assert fitted.config.use_cache == full.config.use_cache
    assert not any("forward" in vars(module) for model in (full, fitted) for module in model.modules())


@pytest.mark.parametrize("name", ["mamba", "falcon_mamba", "jamba", "mamba2", "zamba2"])
def test_readouts_of_transformers_models_are_fitted(name: str) -> None:
    """The first layer reads the same in both models, so least squares brings what it puts out closer."""
    full = MODELS[name]()
    tokens = torch.randint(1, 40, (48, 24), generator=torch.Generator().manual_seed(0))
    plain, given = aireprune.prune(full, ratio=0.34, layout="uniform", reduce="truncate"), read_inputs(tokens)
    subject = find_subject(open_module(full), given)
    fitted = calibrate(subject, open_module(plain), given)
    fit, first = measure_fit(subject, plain, fitted, given), subject.layers[0].name
    assert fit.after.layers[first] < 0.999 * fit.before.layers[first]


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([torch.zeros(8, 40, 5).normal_()], "cannot take the calibration inputs"),
        ([torch.zeros(8, 40, 2).normal_(), torch.zeros(8, 40, 7).normal_()], "cannot take|shapes"),
        ([{"y": torch.zeros(8, 40, 2).normal_()}], "cannot take the calibration inputs"),
    ],
)
def test_batches_that_the_model_cannot_take(batches: list[Any], message: str) -> None:
    with pytest.raises((AireError, RuntimeError), match=message):
        aireprune.prune(STRANGERS["network"](), ratio=0.5, calibrate=batches)


class Around(nn.Module):
    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.model(x)]


def test_our_own_models_go_the_same_way() -> None:
    full = OWN["s4d"]()
    inside = Around(full)
    a = aireprune.prune(full, ratio=0.5, reduce="balanced", layout="adaptive", calibrate=inputs())
    b = aireprune.prune(inside, ratio=0.5, reduce="balanced", layout="adaptive", calibrate=inputs())
    for name, value in a.state_dict().items():
        torch.testing.assert_close(b.state_dict()[f"model.{name}"], value)
