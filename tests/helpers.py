"""Shared by tests: golden files of the official S5, and a dictionary as named arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "golden" / "s5"
GOLDEN_NAMES = sorted(path.stem for path in GOLDEN.glob("*.msgpack"))


class Arrays(dict[str, np.ndarray]):
    """A dictionary as named arrays."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: values.shape for name, values in self.items()}


class Shapes:
    """Named arrays of which only the shapes are known."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]):
        self.shapes = shapes

    def __getitem__(self, name: str) -> np.ndarray:
        raise KeyError(name)


class Golden:
    """One configuration of the official S5: file, configuration, inputs and outputs."""

    def __init__(self, name: str):
        self.name = name
        self.path = GOLDEN / f"{name}.msgpack"
        self.config: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
        self.data = dict(np.load(GOLDEN / f"{name}.npz"))

    def published(self, method: str) -> dict[str, np.ndarray] | None:
        path = GOLDEN / f"{self.name}.published_{method}.npz"
        return dict(np.load(path)) if path.exists() else None

    def inputs(self) -> tuple[Any, ...]:
        import torch

        lengths = torch.from_numpy(self.data["lengths"]) if self.config["padded"] else None
        return torch.from_numpy(self.data["x"]), lengths
