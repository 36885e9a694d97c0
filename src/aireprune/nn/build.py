"""From an opened checkpoint to a model."""

from __future__ import annotations

from torch import nn

from aireprune.errors import AireError
from aireprune.families import find_layers
from aireprune.files.base import Checkpoint
from aireprune.nn.s5_convert import build_s5

BUILDERS = {"s5": build_s5}


def build_model(checkpoint: Checkpoint) -> nn.Module:
    """The model a checkpoint holds, in evaluation mode. Its family follows from its tensors."""
    layers = find_layers(checkpoint, checkpoint.config, str(checkpoint.path))
    families = sorted({layer.family for layer in layers})
    if len(families) > 1 or families[0] not in BUILDERS:
        raise AireError(
            f"{checkpoint.path} holds {' and '.join(families)} layers, for which there is no model class here. The file "
            "itself can be inspected, scored and pruned."
        )
    return BUILDERS[families[0]](checkpoint, checkpoint.config, str(checkpoint.path))
