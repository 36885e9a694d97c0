"""Files at the edge: everything that reads or writes a checkpoint.

Nothing is imported before it is used, so that a safetensors checkpoint can be pruned without ever loading PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aireprune.files.base import Checkpoint
    from aireprune.files.folder import write_folder
    from aireprune.files.open import open_checkpoint
    from aireprune.files.safetensors.checkpoint import Raw

__all__ = ["Checkpoint", "Raw", "open_checkpoint", "write_folder"]

_HOME = {"Checkpoint": "base", "Raw": "safetensors.checkpoint", "open_checkpoint": "open", "write_folder": "folder"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
