"""Our own models as folders in our own format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from aireprune.errors import AireError
from aireprune.families.s4d import S4D
from aireprune.families.s4d_packed import pack
from aireprune.files import write_folder
from aireprune.models.arrays import ModuleArrays, is_own, own_config


def save_model(model: nn.Module, path: str | Path, overwrite: bool = False) -> None:
    """Write one of our models as a folder: config.json, model.safetensors and, if it was pruned, plan.json.

    S4D layers whose channels keep different numbers of modes are stored without the silent ones that fill up their rows.
    """
    if not is_own(model):
        raise AireError(
            f"save writes aireprune's own models; a {type(model).__name__} is saved by its own library, for "
            "example with save_pretrained."
        )
    arrays = ModuleArrays(model)
    packed, rows = pack(S4D().find(arrays, {}), arrays)
    tensors = {name: packed.get(name, arrays[name]) for name in arrays.shapes}
    plan: Any = getattr(model, "plan", None)
    extras = {} if plan is None else {"plan.json": plan.to_json()}
    write_folder(Path(path), tensors, {**own_config(model), **rows}, extras, overwrite)
