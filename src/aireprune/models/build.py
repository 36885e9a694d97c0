"""From an opened checkpoint to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from aireprune.errors import AireError
from aireprune.families.base import NamedArrays
from aireprune.models.s5_convert import build_s5
from aireprune.pruning.source import Source


def build_model(source: Source) -> nn.Module:
    """The model a checkpoint holds, in evaluation mode. Its family follows from its tensors."""
    if source.kind == "huggingface":
        from aireprune.models.huggingface import load_pretrained

        return load_pretrained(source)
    families = sorted({layer.family for layer in source.layers})
    if len(families) > 1 or families[0] not in BUILDERS:
        raise AireError(
            f"{source.name} holds {' and '.join(families)} layers, for which there is no model class here. The file "
            "itself can be inspected, scored and pruned."
        )
    return BUILDERS[families[0]](source.arrays, source.config, source.name)


def build_s4d(arrays: NamedArrays, config: Mapping[str, Any], where: str) -> nn.Module:
    from aireprune.models.s4d import S4DModel
    from aireprune.models.s4d_config import S4DConfig

    return _filled(S4DModel(S4DConfig.infer(arrays.shapes, config)), arrays, where)


def build_mamba(arrays: NamedArrays, config: Mapping[str, Any], where: str) -> nn.Module:
    from aireprune.models.mamba import MambaModel
    from aireprune.models.mamba_config import MambaConfig

    given = {key: config[key] for key in ("mode", "dropout") if key in config}
    return _filled(MambaModel(MambaConfig.infer(arrays.shapes, **given)), arrays, where)


def _filled(model: nn.Module, arrays: NamedArrays, where: str) -> nn.Module:
    """The model with the arrays of the same names as its weights; each must be there in the right shape."""
    weights = {}
    for name, tensor in model.state_dict().items():
        if name not in arrays.shapes:
            raise AireError(f"{where}: tensor {name} is missing, so the model is not complete.")
        if tuple(arrays.shapes[name]) != tuple(tensor.shape):
            raise AireError(
                f"{where}: tensor {name} has shape {tuple(arrays.shapes[name])}, expected {tuple(tensor.shape)}."
            )
        weights[name] = torch.tensor(np.asarray(arrays[name]))
    model.load_state_dict(weights)
    return model.eval()


BUILDERS: dict[str, Callable[[NamedArrays, Mapping[str, Any], str], nn.Module]] = {
    "s5": build_s5,
    "s4d": build_s4d,
    "mamba": build_mamba,
}
