"""The calibrated readout of a linear, time-invariant layer: C, and D where it has one number per channel.

one system       y = s Re(c x) + D u, all outputs at once
channels         every channel by itself, on every stride-th time step
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.arrays import NamedArrays
from aireprune.calibration.moments import Moments, MomentsWithSkip, best_change
from aireprune.calibration.response import Response, response
from aireprune.calibration.sampling import stride_for
from aireprune.families import Layer
from aireprune.families.found import lti_family
from aireprune.kernels.channel_states import channel_features, every
from aireprune.models.arrays import ModuleArrays, like

ROWS = 2**14  # time steps on which the readout of one channel is fitted
MODES_AT_ONCE = 256  # modes of channels whose states are held together
REAL = 1e-4  # of a pole's size: with a smaller imaginary part it counts as real

Stream = Iterable[tuple[Tensor, Tensor, bool]]  # what the layer reads (b, L, h), what it should put out, held out


def fit_readout(model: nn.Module, layer: Layer[Any], stream: Stream, tokens: int) -> None:
    """Fit the readout of one of a model's layers, in place. tokens: how many the stream holds."""
    state = model.state_dict()
    for name, values in fitted_readout(layer, ModuleArrays(model), stream, tokens).items():
        state[name].copy_(like(values, state[name]))


def fitted_readout(layer: Layer[Any], arrays: NamedArrays, stream: Stream, tokens: int) -> dict[str, np.ndarray]:
    """The arrays of a layer's fitted readout, by full name."""
    present = response(layer, arrays)
    if present.system.batch:
        change, skip = _channels(present, stream, stride_for(tokens, ROWS))
    else:
        change, skip = _shared(present, stream)
    new = lti_family(layer, "a calibrated readout").readout(layer, arrays, present.system.c + change)
    if present.own_skip and layer.feedthrough is not None:
        assert present.skip is not None
        old = np.asarray(arrays[layer.feedthrough])
        new[layer.feedthrough] = (present.skip + skip).reshape(old.shape).astype(old.dtype)
    return new


def _shared(present: Response, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """Changes of c (d, o, n) and D (o,)."""
    system = present.system
    features = system.directions * 2 * system.modes
    parts: list[Any] = [_empty(present, features) for _ in range(2)]
    for u, target, held in stream:
        x, lack = present.states(u).flatten(0, 1).flatten(1), (target - present(u)).flatten(0, 1)
        if present.own_skip:
            parts[held].add_with_skip(x, u.flatten(0, 1), lack)
        else:
            parts[held].add(x, lack)
    for part in parts:
        part.gather()
    change = best_change(parts[0], parts[1] if parts[1].power > 0 else None).numpy()
    rows = change[:features].reshape(system.directions, 2, system.modes, system.outputs)
    c = np.moveaxis(rows[:, 0] - 1j * rows[:, 1], -1, -2) / system.share  # y = s Re(c) Re(x) - s Im(c) Im(x)
    return c, change[-1] if present.own_skip else np.zeros(system.outputs)


def _empty(present: Response, features: int) -> Moments:
    kind = MomentsWithSkip.empty if present.own_skip else Moments.zeros
    return kind(features, present.system.outputs)


@dataclass
class _Group:
    """Channels with equally many modes that are not silent. index: of the channels, modes: (channels, m).

    present: the weights (channels, features, 1) with which features give what the layer puts out now.
    """

    index: Tensor
    modes: Tensor
    present: Tensor
    parts: tuple[Moments, Moments]


def _groups(present: Response) -> list[_Group]:
    system = present.system
    gains = system.c[:, :, 0] * system.b[:, None, :, 0]
    active = torch.from_numpy((gains != 0).any(1))  # (h, n)
    counts = active.sum(1)
    groups = []
    for size in counts.unique().tolist():
        for index in torch.nonzero(counts == size)[:, 0].split(max(1, MODES_AT_ONCE // max(size, 1))):
            modes = torch.nonzero(active[index])[:, 1].reshape(len(index), size)
            width = 2 * size * system.directions + present.own_skip
            fit, held = (Moments.zeros(width, 1, (len(index),)) for _ in range(2))
            groups.append(_Group(index, modes, _weights(present, gains, index, modes), (fit, held)))
    return groups


def _weights(present: Response, gains: np.ndarray, index: Tensor, modes: Tensor) -> Tensor:
    """y = s Re(c b) Re(x) - s Im(c b) Im(x) + D u with x_t = lam x_{t-1} + u_t, as (channels, features, 1)."""
    some = present.system.share * np.take_along_axis(gains[index.numpy()], modes[:, None].numpy(), -1)  # (g, d, m)
    columns = np.stack([some.real, -some.imag], 2).reshape(len(index), -1)
    if present.own_skip:
        assert present.skip is not None
        columns = np.concatenate([columns, present.skip[index.numpy(), None]], 1)
    return torch.from_numpy(columns)[..., None]


def real_where_rounded(lam: np.ndarray) -> np.ndarray:
    """Poles without an imaginary part that is as small as rounding errors.

    A negative real pole is stored with an angle of π, rounded. What the rounding lets through would count as a feature of
    its own, some 1e-8 of the others, and be fitted with a readout of 1e8 that another exponential function breaks.
    """
    return np.where(np.abs(lam.imag) < REAL * np.abs(lam), lam.real + 0j, lam)


def _fixed(present: Response, u: Tensor) -> Tensor | float:
    """What channels put out that is not fitted: D u where D is a matrix."""
    if present.skip is None or present.own_skip:
        return 0.0
    return u @ torch.from_numpy(present.skip).to(u.dtype).T


def _channels(present: Response, stream: Stream, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Changes of c (h, d, 1, n) and D (h,)."""
    system, groups = present.system, _groups(present)
    lam = torch.from_numpy(real_where_rounded(system.lam))
    for u, target, held in stream:
        step = min(stride, u.shape[1])
        wanted = every(step, target - _fixed(present, u))
        for group in groups:
            poles = lam[group.index].gather(1, group.modes)
            features = channel_features(poles, u, group.index, step, system.directions, present.own_skip)
            group.parts[held].add(features, wanted[group.index][..., None] - features @ group.present)
    change, skip = np.zeros_like(system.c), np.zeros(present.width)
    b = torch.from_numpy(system.b[..., 0])
    for group in groups:
        fit, judge = group.parts
        fit.gather()
        judge.gather()
        solved = best_change(fit, judge if judge.power.any() else None)[..., 0]
        m, index = group.modes.shape[1], group.index[:, None].expand_as(group.modes).numpy()
        if present.own_skip:
            skip[group.index.numpy()] = solved[:, -1].numpy()
        gain = system.share * b[group.index].gather(1, group.modes)
        for direction in range(system.directions):
            re, im = solved[:, 2 * m * direction : 2 * m * (direction + 1)].chunk(2, dim=1)
            change[index, direction, 0, group.modes.numpy()] = (torch.complex(re, -im) / gain).numpy()
    return change, skip
