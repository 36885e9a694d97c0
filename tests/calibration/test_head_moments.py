"""Moments of gates and states, against plain sums."""

from __future__ import annotations

import numpy as np
import torch
from small_models import inputs, mamba2

from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.head_mixers import HeadMixer
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.subject import find_subject
from aireprune.pruning.source import open_module


def test_moments_are_means_over_tokens_heads_and_channels() -> None:
    model, x = mamba2(), inputs(8)
    source, groups = open_module(model), model.config.n_groups
    moments = measured_covariances(find_subject(source, read_inputs(x)), read_inputs(x))[0]
    mixer = HeadMixer(model.layers[0], source.layers[0])
    with torch.no_grad():
        inside = mixer.signals(model.norms[0](model.encode(torch.from_numpy(x))))
        h = torch.stack(list(mixer.states(inside, 1)), 1).double()  # (b, t, H, P, N)
    c = inside.c.double()
    per_group = h.unflatten(2, (groups, -1))
    tokens = c.shape[0] * c.shape[1]
    assert moments is not None
    np.testing.assert_allclose(moments[0], torch.einsum("btgi,btgj->gij", c, c) / tokens, rtol=1e-4)
    expected = torch.einsum("btghpi,btghpj->gij", per_group, per_group) / tokens
    np.testing.assert_allclose(moments[1], expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
