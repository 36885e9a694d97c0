"""A new model from a configuration, initialised as its paper does."""

from __future__ import annotations

from torch import nn

from aireprune.models import lru, mamba, mamba2, s4d, s5
from aireprune.models.lru_config import LRUConfig
from aireprune.models.mamba2_config import Mamba2Config
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5_config import S5Config

AnyConfig = S5Config | S4DConfig | LRUConfig | MambaConfig | Mamba2Config


def new_model(config: AnyConfig, seed: int) -> nn.Module:
    match config:
        case S5Config():
            return s5.initialize(s5.S5Model(config), seed)
        case S4DConfig():
            return s4d.initialize(s4d.S4DModel(config), seed)
        case LRUConfig():
            return lru.initialize(lru.LRUModel(config), seed)
        case MambaConfig():
            return mamba.initialize(mamba.MambaModel(config), seed)
        case Mamba2Config():
            return mamba2.initialize(mamba2.Mamba2Model(config), seed)
