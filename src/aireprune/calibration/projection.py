"""What projections of Mamba-2 layers lose on data, beside what they were predicted to lose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from aireprune.calibration.calls import Call
from aireprune.calibration.head_mixers import HeadMixer
from aireprune.calibration.inputs import Inputs, judging
from aireprune.calibration.subject import Subject
from aireprune.calibration.watching import watch
from aireprune.method.projection import Projection
from aireprune.models.projection import gates


def measured_errors(full: Subject, inputs: Inputs, projections: Mapping[str, Projection]) -> dict[str, float]:
    """How far every layer's scan moves, relative to its norm, on inputs that are held out; by the layer's name.

    projections: by the layer's name. Each is tried by itself, on what the layer reads in the full model.
    """
    losses = {
        site.layer.name: _Loss(
            HeadMixer(full.module.get_submodule(site.module), site.layer), projections[site.layer.name]
        )
        for site in full.sites
        if site.layer.name in projections
    }
    watch(full, (inputs[number] for number in judging(inputs)), {name: loss.add for name, loss in losses.items()})
    return {name: loss.relative for name, loss in losses.items()}


class _Loss:
    """Sums of squares, over batches."""

    def __init__(self, mixer: HeadMixer, projection: Projection):
        self.mixer = mixer
        self.b, self.c = (torch.from_numpy(rows).flatten(0, 1).float() for rows in (projection.b, projection.c))
        self.power = self.error = 0.0

    def add(self, call: Call) -> None:
        inside = self.mixer.inside(call)
        full = self.mixer.scan(inside, inside.b, inside.c).double()
        less = self.mixer.scan(inside, gates(inside.b, self.b), gates(inside.c, self.c)).double()
        self.power += float(full.square().sum())
        self.error += float((full - less).square().sum())

    @property
    def relative(self) -> float:
        return float(np.sqrt(self.error / self.power)) if self.power > 0 else 0.0
