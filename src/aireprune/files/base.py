"""What every kind of checkpoint file offers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aireprune.arrays import Edit, Shape


@runtime_checkable
class Checkpoint(Protocol):
    """A checkpoint on disk, opened for reading: named arrays, and a way to write an edited copy of the same kind.

    Names are dotted whatever the file uses. Values come as NumPy arrays; bfloat16 is handed out as float32.
    """

    path: Path
    kind: str  # "aire", "flax", "gguf", "huggingface", "npz", "orbax", "safetensors" or "torch"
    config: Mapping[str, Any]  # the configuration that came with it; empty if none did
    notices: list[str]  # what the user should know about how it was read or will be written

    @property
    def shapes(self) -> Mapping[str, Shape]: ...

    def __getitem__(self, name: str) -> np.ndarray: ...

    def check_target(self, target: Path) -> None:
        """Raise if no copy can be called so."""
        ...

    def write(
        self,
        target: Path,
        edits: Mapping[str, Edit],
        config: Mapping[str, Any] | None = None,
        extras: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write a copy in which every array named in `edits` is replaced by the edit's result, in its old dtype.

        All else is carried over bit by bit. `config` replaces the configuration. `extras` are small text files by name
        (plan.json): inside a directory they keep their name, beside a single file OUT.ext they become OUT.plan.json.
        The output appears whole or not at all.
        """
        ...
