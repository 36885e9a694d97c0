"""Layers that are finished, on disk, so that a long calibration that was interrupted goes on where it stopped.

They stand beside the target in .NAME.calibration and are gone once the target is written. What they belong to is
written down: another source, plan or other inputs start anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from aireprune.errors import AireError


class LayerStore:
    """Arrays of finished modules. belongs: everything that decides what they are.

    begin: start anew where something else was kept; otherwise another process has done so, and must have meant the same.
    """

    def __init__(self, target: Path, belongs: Mapping[str, object], begin: bool = True):
        self.folder = target.parent / f".{target.name}.calibration"
        self._job = self.folder / "job.json"
        self._places: dict[str, Path] = {}
        wanted = json.dumps(dict(belongs), sort_keys=True, default=str)
        try:
            same = self._job.is_file() and self._job.read_text() == wanted
            if not same and not begin:
                raise AireError(
                    f"{self.folder} does not hold what {socket.gethostname()} is to calibrate: all nodes need a disk in "
                    "common, and processors that agree in what they compute."
                )
            if not same:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
                self._job.write_text(wanted)
        except OSError as problem:
            raise AireError(f"{self.folder} cannot be written: {problem.strerror or problem}.") from problem

    def take(self, name: str) -> bool:
        """Know what an earlier run saved for a module; False if there is nothing, or if it is damaged."""
        try:
            with safe_open(self._file(name), framework="np") as file:
                self._places.update(dict.fromkeys(file.keys(), self._file(name)))
        except (OSError, SafetensorError):
            return False
        return True

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """The new arrays of a module; written whole or not at all."""
        file = self._file(name)
        part = file.with_suffix(".part")
        save_file({key: np.ascontiguousarray(values) for key, values in arrays.items()}, part)
        os.replace(part, file)
        self._places.update(dict.fromkeys(arrays, file))

    @property
    def arrays(self) -> Iterable[str]:
        """Names of the arrays that are here."""
        return self._places.keys()

    def __contains__(self, array: str) -> bool:
        return array in self._places

    def __getitem__(self, array: str) -> np.ndarray:
        """An array, read from disk."""
        with safe_open(self._places[array], framework="np") as file:
            values: np.ndarray = file.get_tensor(array)
        return values

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}.safetensors"
