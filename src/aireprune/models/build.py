"""From an opened checkpoint to a model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from aireprune.arrays import NamedArrays
from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.files.base import Checkpoint
from aireprune.models.ambiguous import require_settled
from aireprune.models.lru_convert import build_lru
from aireprune.models.s5_convert import build_s5

if TYPE_CHECKING:
    from aireprune.models.s4d_names import OwnNames


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
    """The S4 repository's example network, under any prefix, with standalone S4D kernels or the repository's own."""
    from aireprune.models.s4d import S4DModel
    from aireprune.models.s4d_config import S4DConfig
    from aireprune.models.s4d_names import OwnNames

    arrays = OwnNames(found.arrays)
    _check_network(found, arrays)
    require_settled(found)
    if "s4_layers.0.kernel.inv_dt" not in arrays.shapes:
        return _filled(S4DModel(S4DConfig.infer(arrays.shapes, found.config)), found.name, arrays)
    from aireprune.models.s4_kernel import S4Config, S4Kernel

    config = S4Config.infer(arrays.shapes, found.config)
    model = S4DModel(config)
    for number, layer in enumerate(model.s4_layers):
        prefix = f"s4_layers.{number}.kernel."
        roles = found.layers[number].arrays
        layer.kernel = S4Kernel(config, {role: arrays.shapes[prefix + role] for role in roles})
    return _filled(model, found.name, arrays)


def _check_network(found: Found, arrays: OwnNames) -> None:
    """Raise if the layers are in another network than the one that is known, or in one that has more to it."""
    from aireprune.models.s4d_names import network_prefix

    prefix = network_prefix(found.arrays.shapes)
    strange = [
        layer.name for layer in found.layers if not re.match(re.escape(prefix) + r"s4_layers\.\d+\.", layer.name)
    ]
    known = re.compile(r"s4_layers\.\d+\.(kernel\.|D$|output_linear\.0\.(weight|bias)$)")
    strange += [
        arrays.stored(name) for name in arrays.shapes if name.startswith("s4_layers.") and not known.match(name)
    ]
    if strange:
        raise AireError(
            f"{found.name}: {strange[0]} is not part of the network that is known here (the S4 repository's example.py: "
            "encoder, s4_layers with one D and one output_linear each, norms, decoder), so no model can be built. The "
            "file itself can be inspected, scored and pruned."
        )
    if found.config.get("bidirectional"):
        raise AireError(f"{found.name}: its S4D layers are bidirectional; the model class here runs forwards only.")


def build_mamba(found: Found) -> nn.Module:
    from aireprune.models.mamba import MambaModel
    from aireprune.models.mamba_config import MambaConfig

    given = {key: found.config[key] for key in ("mode", "dropout") if key in found.config}
    return _filled(MambaModel(MambaConfig.infer(found.arrays.shapes, **given)), found.name, found.arrays)


def build_mamba2(found: Found) -> nn.Module:
    from aireprune.models.mamba2 import Mamba2Model
    from aireprune.models.mamba2_config import Mamba2Config

    given = {key: found.config[key] for key in ("mode", "dropout") if key in found.config}
    groups = found.layers[0].groups
    return _filled(Mamba2Model(Mamba2Config.infer(found.arrays.shapes, groups, **given)), found.name, found.arrays)


def _filled(model: nn.Module, where: str, arrays: NamedArrays) -> nn.Module:
    """The model with the arrays of the same names as its weights; each must be there in the right shape."""
    weights, shapes = {}, arrays.shapes
    for name, tensor in model.state_dict().items():
        if name not in shapes:
            raise AireError(f"{where}: tensor {name} is missing, so the model is not complete.")
        if tuple(shapes[name]) != tuple(tensor.shape):
            raise AireError(f"{where}: tensor {name} has shape {tuple(shapes[name])}, expected {tuple(tensor.shape)}.")
        weights[name] = torch.tensor(np.asarray(arrays[name]))
    model.load_state_dict(weights)
    return model.eval()


BUILDERS: dict[str, Callable[[Found], nn.Module]] = {
    "s5": build_s5,
    "s4d": build_s4d,
    "lru": build_lru,
    "mamba": build_mamba,
    "mamba2": build_mamba2,
}
