"""A full model as calibration sees it: its layers, and where they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from aireprune.arrays import NamedArrays
from aireprune.calibration.inputs import Inputs
from aireprune.calibration.running import running
from aireprune.calibration.sites import Site, find_sites
from aireprune.families import Layer


class Opened(Protocol):
    """A module whose state space layers have been found, such as `aireprune.pruning.source.ModuleSource`."""

    @property
    def module(self) -> nn.Module: ...

    @property
    def arrays(self) -> NamedArrays: ...

    @property
    def layers(self) -> list[Layer[Any]]: ...


@dataclass(frozen=True)
class Subject:
    """A module, its layers, and the sites of those that the inputs reach, in the order of their calls."""

    module: nn.Module
    arrays: NamedArrays
    layers: Sequence[Layer[Any]]
    sites: Sequence[Site]


@torch.no_grad()
def find_subject(opened: Opened, inputs: Inputs) -> Subject:
    """Look at one forward pass."""
    with running(opened.module):
        sites = find_sites(opened.module, opened.arrays, opened.layers, inputs[0])
    return Subject(opened.module, opened.arrays, opened.layers, sites)
