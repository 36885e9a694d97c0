"""Weights that a run begins with, instead of new ones: those of a model that was trained before."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.models.arrays import own_config

MAY_DIFFER = frozenset({"dropout", "dt_min", "dt_max", "r_min", "r_max", "max_phase", "blocks", "C_init"})


def begin_with(model: nn.Module, path: str) -> str:
    """Give the model the weights of the folder at `path`; returns their digest.

    The folder is one of our own format whose configuration is the model's, except for dropout and for what new weights
    are drawn by.
    """
    checkpoint = open_checkpoint(path)
    if checkpoint.kind != "aire":
        raise AireError(f"{path} is no model folder of aire train or aireprune.save, which start={path!r} needs.")
    _check_same(path, dict(checkpoint.config), own_config(model))
    weights = {}
    for name, tensor in model.state_dict().items():
        if name not in checkpoint.shapes or tuple(checkpoint.shapes[name]) != tuple(tensor.shape):
            found = tuple(checkpoint.shapes[name]) if name in checkpoint.shapes else "not there"
            raise AireError(f"{path}: tensor {name} is {found}, the run's model has {tuple(tensor.shape)}.")
        weights[name] = torch.tensor(checkpoint[name])
    model.load_state_dict(weights)
    return _digest(weights)


def _check_same(path: str, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key in sorted(wanted.keys() - MAY_DIFFER):
        if stored.get(key) != wanted.get(key):
            raise AireError(
                f"{path} has {key} {stored.get(key)}, the run's model {wanted.get(key)}: begin with weights of the "
                "same model, or change the run to fit them."
            )


def _digest(weights: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
