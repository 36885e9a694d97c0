"""From an opened checkpoint to a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.files.base import Checkpoint
from aireprune.models.lru_convert import build_lru
from aireprune.models.s5_convert import build_s5


def build_model(found: Found, checkpoint: Checkpoint) -> nn.Module:
    """The model a checkpoint holds, in evaluation mode. Its family follows from its tensors."""
    if checkpoint.kind == "huggingface":
        from aireprune.models.huggingface import load_pretrained

        return load_pretrained(found, checkpoint)
    return BUILDERS[own_family(found)](found)


def own_family(found: Found) -> str:
    """The family whose model class here a checkpoint can become; an error if there is none."""
    families = sorted({layer.family for layer in found.layers})
    if len(families) > 1 or families[0] not in BUILDERS:
        raise AireError(
            f"{found.name} holds {' and '.join(families)} layers, for which there is no model class here. The file "
            "itself can be inspected, scored and pruned."
        )
    odd = next(
        (layer for layer in found.layers if layer.declared or (layer.family == "mamba" and layer.groups > 1)), None
    )
    if odd is not None:
        raise AireError(
            f"{found.name}: layer {odd.name} has more than the model classes here know (declared tensors, or a second "
            "direction), so no model can be built. The file itself can be inspected, scored and pruned."
        )
    return families[0]


def build_s4d(found: Found) -> nn.Module:
    from aireprune.models.s4d import S4DModel
    from aireprune.models.s4d_config import S4DConfig

    return _filled(S4DModel(S4DConfig.infer(found.arrays.shapes, found.config)), found)


def build_mamba(found: Found) -> nn.Module:
    from aireprune.models.mamba import MambaModel
    from aireprune.models.mamba_config import MambaConfig

    given = {key: found.config[key] for key in ("mode", "dropout") if key in found.config}
    return _filled(MambaModel(MambaConfig.infer(found.arrays.shapes, **given)), found)


def build_mamba2(found: Found) -> nn.Module:
    from aireprune.models.mamba2 import Mamba2Model
    from aireprune.models.mamba2_config import Mamba2Config

    given = {key: found.config[key] for key in ("mode", "dropout") if key in found.config}
    groups = found.layers[0].groups
    return _filled(Mamba2Model(Mamba2Config.infer(found.arrays.shapes, groups, **given)), found)


def _filled(model: nn.Module, found: Found) -> nn.Module:
    """The model with the arrays of the same names as its weights; each must be there in the right shape."""
    weights, shapes = {}, found.arrays.shapes
    for name, tensor in model.state_dict().items():
        if name not in shapes:
            raise AireError(f"{found.name}: tensor {name} is missing, so the model is not complete.")
        if tuple(shapes[name]) != tuple(tensor.shape):
            raise AireError(
                f"{found.name}: tensor {name} has shape {tuple(shapes[name])}, expected {tuple(tensor.shape)}."
            )
        weights[name] = torch.tensor(np.asarray(found.arrays[name]))
    model.load_state_dict(weights)
    return model.eval()


BUILDERS: dict[str, Callable[[Found], nn.Module]] = {
    "s5": build_s5,
    "s4d": build_s4d,
    "lru": build_lru,
    "mamba": build_mamba,
    "mamba2": build_mamba2,
}
