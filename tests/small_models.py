"""Small models of ours, inputs for them, and how far two of them are apart."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from aireprune.models.mamba import MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.mamba2 import Mamba2Model
from aireprune.models.mamba2 import initialize as initialize_mamba2
from aireprune.models.mamba2_config import Mamba2Config
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d import S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5 import S5Model
from aireprune.models.s5 import initialize as initialize_s5
from aireprune.models.s5_config import S5Config

LENGTH = 40
POST_NORM = '{"prenorm": false}'  # what a bare file of an S4D network does not say: NAME.json beside it


def s5(**changes: object) -> S5Model:
    config = {"d_input": 2, "d_output": 3, "h": 6, "n": 16, "layers": 2, "blocks": 1, "activation": "half_glu2"}
    return initialize_s5(S5Model(S5Config.from_dict({**config, **changes}))).eval()


def lopsided_s5() -> S5Model:
    """Readouts of a few states are huge: where those go, refitting does not bring their output back."""
    model = s5()
    with torch.no_grad():
        for block in model.layers:
            rise = torch.complex(block.seq.Lambda_re, block.seq.Lambda_im).abs().argsort()
            block.seq.C[:, rise[-4:]] *= 1e3
    return model


def s4d() -> S4DModel:
    return initialize_s4d(S4DModel(S4DConfig(d_input=2, d_output=3, h=6, n=16, layers=2))).eval()


def mamba() -> MambaModel:
    config = MambaConfig(d_input=2, d_output=3, d_model=6, layers=2, d_state=8)
    return initialize_mamba(MambaModel(config), 1).eval()


def mamba2(**changes: object) -> Mamba2Model:
    config = {"d_input": 2, "d_output": 3, "d_model": 8, "layers": 2, "d_state": 12, "head_dim": 4, "n_groups": 2}
    return initialize_mamba2(Mamba2Model(Mamba2Config.from_dict({**config, **changes})), 1).eval()


MODELS = {
    "s5": s5,
    "s5 post-norm": lambda: s5(prenorm=False, batchnorm=True, bidirectional=False),
    "s5 two ways": lambda: s5(bidirectional=True, batchnorm=True),
    "s4d": s4d,
    "mamba": mamba,
    "mamba2": mamba2,
}


def inputs(count: int = 12, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((count, LENGTH, 2))
    return np.cumsum(noise, axis=1).astype(np.float32) / 4


@torch.inference_mode()
def distance(full: nn.Module, other: nn.Module, x: np.ndarray) -> float:
    values = torch.from_numpy(x)
    return float((full(values) - other(values)).pow(2).mean())
