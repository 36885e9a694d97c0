"""A new model from a configuration, initialised as its paper does."""

from __future__ import annotations

from torch import nn

from aireprune.models.mamba import MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d import S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5 import S5Model
from aireprune.models.s5 import initialize as initialize_s5
from aireprune.models.s5_config import S5Config

AnyConfig = S5Config | S4DConfig | MambaConfig


def new_model(config: AnyConfig, seed: int) -> nn.Module:
    if isinstance(config, S5Config):
        return initialize_s5(S5Model(config), seed)
    if isinstance(config, S4DConfig):
        return initialize_s4d(S4DModel(config), seed)
    return initialize_mamba(MambaModel(config), seed)
