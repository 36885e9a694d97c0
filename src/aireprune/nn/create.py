"""A new model from a configuration, initialised as its paper does."""

from __future__ import annotations

from torch import nn

from aireprune.nn.mamba import MambaModel
from aireprune.nn.mamba import initialize as initialize_mamba
from aireprune.nn.mamba_config import MambaConfig
from aireprune.nn.s4d import S4DModel
from aireprune.nn.s4d import initialize as initialize_s4d
from aireprune.nn.s4d_config import S4DConfig
from aireprune.nn.s5 import S5Model
from aireprune.nn.s5 import initialize as initialize_s5
from aireprune.nn.s5_config import S5Config

AnyConfig = S5Config | S4DConfig | MambaConfig


def new_model(config: AnyConfig, seed: int) -> nn.Module:
    if isinstance(config, S5Config):
        return initialize_s5(S5Model(config), seed)
    if isinstance(config, S4DConfig):
        return initialize_s4d(S4DModel(config), seed)
    return initialize_mamba(MambaModel(config), seed)
