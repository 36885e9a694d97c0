"""What a checkpoint of the official S5 does not say about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from aireprune.models.heads import MODES
from aireprune.models.model_config import ModelConfig

ACTIVATIONS = ("full_glu", "half_glu1", "half_glu2", "gelu")
C_INITS = ("lecun_normal", "trunc_standard_normal", "complex_normal")


@dataclass(frozen=True)
class S5Config(ModelConfig):
    """Configuration of an S5 classifier; names follow the official implementation's.

    h: features. n: state size of a layer, counting both halves of each conjugate pair. blocks: HiPPO blocks at
    initialisation. states: stored modes per layer once they differ from layer to layer (n/2 with conj_sym, else n).
    """

    needed: ClassVar[tuple[str, ...]] = ("d_input", "d_output", "h", "n", "layers")
    model: ClassVar[str] = "S5"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "activation": ACTIVATIONS,
        "C_init": C_INITS,
        "discretization": ("zoh", "bilinear"),
        "mode": MODES,
    }

    d_input: int
    d_output: int
    h: int
    n: int
    layers: int
    blocks: int = 1
    conj_sym: bool = True
    bidirectional: bool = False
    C_init: str = "trunc_standard_normal"
    discretization: str = "zoh"
    clip_eigs: bool = False
    activation: str = "half_glu2"
    prenorm: bool = True
    batchnorm: bool = True
    padded: bool = False
    mode: str = "pool"
    step_rescale: float = 1.0
    retrieval: bool = False
    dropout: float = 0.0
    dt_min: float = 0.001
    dt_max: float = 0.1
    states: tuple[int, ...] | None = None

    @property
    def modes(self) -> tuple[int, ...]:
        """Stored modes of every layer."""
        return self.states or (self.n // 2 if self.conj_sym else self.n,) * self.layers

    @property
    def one_c_matrix(self) -> bool:
        """Both directions share one C with twice the columns (the official complex_normal initialisation)."""
        return self.C_init == "complex_normal"
