"""A single file and what stands beside it: NAME.ext, its configuration NAME.json, and small texts NAME.plan.json."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.arrays import Edit, Shape
from aireprune.errors import AireError
from aireprune.files.configs import ConfigLike, find_config
from aireprune.files.json_text import json_text
from aireprune.files.links import refuse_own
from aireprune.files.weights import Keys, Nested, Weights, check_names, refuse_additions
from aireprune.files.writing.atomic import atomic_paths, explained

KINDS = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".ckpt": "torch",
    ".bin": "torch",
    ".msgpack": "flax",
    ".npz": "npz",
}
EXPORTED = (".onnx", ".gguf", ".pt2")


def beside(path: Path, ending: str) -> Path:
    """NAME.ending next to NAME.ext. Only the suffixes of checkpoints are taken off: checkpoint_1.5 is a whole name."""
    name = path.stem if path.suffix.lower() in KINDS else path.name
    return path.with_name(f"{name}.{ending}")


def refuse_file_name(target: Path) -> None:
    """Refuse a directory that is called as a file is."""
    if target.suffix.lower() in (*KINDS, *EXPORTED):
        raise AireError(
            f"{target} looks like a file, but the output is a directory; leave {target.suffix} out of its name."
            f"{_way(target)}"
        )


def _way(target: Path) -> str:
    """How files come about that are no checkpoints."""
    return " `aire export` makes such files of a pruned checkpoint." if target.suffix.lower() in EXPORTED else ""


def refuse_shared(target: Path) -> None:
    """Refuse NAME.ext if NAME.json or NAME.plan.json, which would stand beside it, are those of another file NAME.other."""
    if target.suffix.lower() not in KINDS:
        return
    texts = [text for text in (beside(target, "plan.json"), beside(target, "json")) if os.path.lexists(text)]
    others = (target.with_suffix(suffix) for suffix in ("", *KINDS) if suffix != target.suffix.lower())
    other = next((path for path in others if path.is_file()), None)
    if texts and other is not None:
        raise AireError(
            f"{texts[0]} belongs to {other}, and {target} would have its own under that name: choose another name."
        )


class SingleCheckpoint:
    """A checkpoint that is one file of weights."""

    def __init__(self, kind: str, weights: Weights, config: ConfigLike = None) -> None:
        self.kind = kind
        self.path = weights.path
        self._weights = weights
        self.notices = weights.notices
        found = find_config(self.path, config, beside(self.path, "json"))
        self.config: Mapping[str, Any] = found.values
        self._sources = {self.path, beside(self.path, "json"), found.file or self.path}

    @property
    def within(self) -> Keys:
        """The keys that lead to the state dict in a PyTorch file that holds more."""
        return self._weights.within if isinstance(self._weights, Nested) else ()

    @property
    def shapes(self) -> Mapping[str, Shape]:
        return self._weights.shapes

    def __getitem__(self, name: str) -> np.ndarray:
        return self._weights[name]

    def check_target(self, target: Path) -> None:
        """A suffix of another kind of file than the source is refused: conversion is not pruning."""
        suffix = target.suffix.lower()
        if KINDS.get(suffix, self.kind) != self.kind or suffix in EXPORTED:
            raise AireError(
                f"{self.path} is a {self.kind} file and so will its copy be, but {target} names another kind; "
                f"keep the suffix.{_way(target)}"
            )

    def write(
        self,
        target: Path,
        edits: Mapping[str, Edit],
        config: Mapping[str, Any] | None = None,
        extras: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """See `Checkpoint.write`: OUT.ext, OUT.json if there is a configuration, and the extras; all of them or none."""
        check_names(self.path, edits, self.shapes)
        refuse_additions(self.path, edits)
        self.check_target(target)
        texts = {beside(target, name): text for name, text in (extras or {}).items()}
        config = self.config if config is None else config
        if config:
            texts[beside(target, "json")] = json_text(config)
        targets = [target, *texts]
        with explained(target):
            refuse_own(self._sources, targets)
            refuse_shared(target)
        with atomic_paths(targets, overwrite) as temporaries:
            self._weights.copy_edited(temporaries[0], edits)
            for temporary, text in zip(temporaries[1:], texts.values(), strict=True):
                temporary.write_text(text, encoding="utf-8")
