"""What a checkpoint of an LRU does not say about itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from aireprune.errors import AireError
from aireprune.models.heads import MODES
from aireprune.models.model_config import ModelConfig
from aireprune.models.s5_config import ACTIVATIONS


@dataclass(frozen=True)
class LRUConfig(ModelConfig):
    """Configuration of an LRU classifier or language model.

    h: features. n: states of a layer, all of them stored. r_min, r_max, max_phase: radii and largest angle of the poles
    at initialisation. states: states per layer once they differ from layer to layer.
    """

    needed: ClassVar[tuple[str, ...]] = ("d_input", "d_output", "h", "n", "layers")
    model: ClassVar[str] = "LRU"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"activation": ACTIVATIONS, "mode": MODES}

    d_input: int
    d_output: int
    h: int
    n: int
    layers: int
    bidirectional: bool = False
    activation: str = "full_glu"
    prenorm: bool = True
    batchnorm: bool = True
    mode: str = "pool"
    retrieval: bool = False
    dropout: float = 0.0
    r_min: float = 0.0
    r_max: float = 1.0
    max_phase: float = 2 * math.pi
    states: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.r_min < self.r_max <= 1:
            raise AireError(
                f"LRU configuration: r_min is {self.r_min} and r_max is {self.r_max}, expected 0 <= r_min < r_max <= 1."
            )

    @property
    def modes(self) -> tuple[int, ...]:
        """States of every layer."""
        return (self.n,) * self.layers if self.states is None else self.states
