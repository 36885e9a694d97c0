"""A recovery under way, on disk, so that one that was interrupted goes on where it stopped.

It stands beside the target in .NAME.recovery and is gone once the target is written. What it belongs to is written
down: another source, plan, effort or other inputs start anew.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aireprune.calibration.recovery_run import Keeper, State
from aireprune.errors import AireError


class RecoveryStore(Keeper):
    """belongs: everything that decides what comes out."""

    def __init__(self, target: Path, belongs: Mapping[str, object]):
        self.folder = recovery_folder(target)
        self._file = self.folder / "recovery.pt"
        self._belongs = json.dumps(dict(belongs), sort_keys=True, default=str)

    def load(self) -> State | None:
        """What was kept of the same recovery; None if there is nothing, or if it is damaged."""
        import torch

        try:
            found: dict[str, Any] = torch.load(self._file, weights_only=True)
            return found["state"] if found["belongs"] == self._belongs else None
        except Exception:  # torch.load raises whatever a damaged file makes of it
            return None

    def save(self, state: State) -> None:
        """Written whole or not at all."""
        import torch

        part = self._file.with_suffix(".part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            torch.save({"belongs": self._belongs, "state": state}, part)
            os.replace(part, self._file)
        except (OSError, RuntimeError) as problem:  # torch reports a full disk as a RuntimeError
            raise AireError(f"{self.folder} cannot be written: {problem}.") from problem


def recovery_folder(target: Path) -> Path:
    """Where a recovery that leads to `target` is kept."""
    return target.parent / f".{target.name}.recovery"


def forget_recovery(target: Path) -> None:
    """Remove what was kept; the target is written."""
    shutil.rmtree(recovery_folder(target), ignore_errors=True)
