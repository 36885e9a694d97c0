"""A head fitted behind an RMS norm: exact where one exists, and otherwise as far off as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from aireprune.calibration.head import fit_head
from aireprune.calibration.inputs import ArrayInputs, held_out
from aireprune.errors import AireError
from aireprune.models.mamba import MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig

SIZES = {"d_input": 12, "d_output": 12, "d_model": 8, "layers": 2, "mode": "tokens"}


def language_model(final_norm: str) -> MambaModel:
    torch.manual_seed(0)
    model = initialize(MambaModel(MambaConfig(**SIZES, final_norm=final_norm)), 3)
    with torch.no_grad():
        for parameter in model.norm.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def inputs(count: int = 16) -> ArrayInputs:
    return ArrayInputs(np.random.default_rng(0).integers(0, 12, (count, 50)))


def test_an_rms_norm_and_a_head_without_a_bias_are_found_again() -> None:
    model = language_model("rms")
    with torch.no_grad():
        model.classifier.bias.zero_()
    fitted = fit_head(model, inputs())
    wanted = (model.classifier.weight * model.norm.weight).detach().numpy()
    np.testing.assert_allclose(fitted.weight, wanted - wanted.mean(0), atol=1e-4)
    assert fitted.divergence < 1e-8
    assert fitted.changed == 0


def test_what_it_says_about_itself_is_what_it_does() -> None:
    model, given = language_model("layer").eval(), inputs()
    fitted = fit_head(model, given)
    x = torch.cat([given[number].first for number in range(given.batches) if held_out(number)])
    with torch.no_grad():
        z = model.features(x)
        new = (z / z.square().mean(-1, keepdim=True).add(1e-5).sqrt()) @ torch.from_numpy(fitted.weight).T
        p, q = model(x).softmax(-1), new.softmax(-1)
    divergence = (p * (p / q).log()).sum(-1).mean() / math.log(2)
    assert fitted.divergence == pytest.approx(float(divergence), rel=1e-3)
    assert fitted.changed == pytest.approx(float((p.argmax(-1) != q.argmax(-1)).float().mean()))
    assert 1e-5 < fitted.divergence < 0.2


def test_some_inputs_have_to_be_held_out() -> None:
    with pytest.raises(AireError, match="at least 4 sequences"):
        fit_head(language_model("layer"), inputs(3))
