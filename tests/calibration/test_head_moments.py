"""Moments of gates and states, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import inputs, mamba2

from aireprune import AireError
from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.head_mixers import HeadMixer
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.subject import find_subject
from aireprune.pruning.source import open_module


def test_moments_are_means_over_tokens_heads_and_channels() -> None:
    """Of the sequences that are not held out: the first three of four."""
    model, given = mamba2(), inputs(4)
    x = given[:3]
    source, groups = open_module(model), model.config.n_groups
    moments = measured_covariances(find_subject(source, read_inputs(given)), read_inputs(given))[0]
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


def test_fewer_tokens_than_states_are_refused() -> None:
    model, x = mamba2(), read_inputs(inputs(1)[:, :11])
    with pytest.raises(AireError, match=r"12 states per group.*have 11"):
        measured_covariances(find_subject(open_module(model), x), x)
    enough = read_inputs(inputs(1)[:, :12])
    measured_covariances(find_subject(open_module(model), enough), enough)
