"""States of channels at some of the steps, against the recurrence."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aireprune.kernels.channel_states import channel_features, every


@pytest.mark.parametrize("stride", [1, 3, 7, 20])
@pytest.mark.parametrize("skip", [False, True])
def test_every_stride_th_state_in_both_directions(stride: int, skip: bool) -> None:
    rng = np.random.default_rng(0)
    lam = (0.9 * rng.random((3, 4)) * np.exp(1j * rng.standard_normal((3, 4)))).astype(complex)
    all_channels, index = rng.standard_normal((2, 20, 5)).astype(np.float32), torch.tensor([4, 0, 2])
    u = all_channels[..., index]
    x = np.zeros((2, 2, 21, 3, 4), complex)  # direction, sequence, time (one more), channel, mode
    for t in range(20):
        x[0, :, t] = lam * x[0, :, t - 1] + u[:, t, :, None]
        back = 19 - t
        x[1, :, back] = lam * (x[1, :, back + 1] if t else 0) + u[:, back, :, None]
    at = slice(stride - 1, 20, stride)
    wanted = [part for d in range(2) for part in (x[d, :, :20][:, at].real, x[d, :, :20][:, at].imag)]
    rows = np.moveaxis(np.concatenate(wanted, -1), 2, 0).reshape(3, -1, 16)
    if skip:
        rows = np.concatenate([rows, np.moveaxis(u[:, at], 2, 0).reshape(3, -1, 1)], -1)
    found = channel_features(torch.from_numpy(lam), torch.from_numpy(all_channels), index, stride, 2, skip)
    np.testing.assert_allclose(found.numpy(), rows, atol=1e-5)
    np.testing.assert_array_equal(
        every(stride, torch.from_numpy(u)).numpy(), np.moveaxis(u[:, at], 2, 0).reshape(3, -1)
    )
