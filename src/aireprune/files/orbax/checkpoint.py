"""Orbax checkpoints, the folders that flax.training.checkpoints.save_checkpoint writes, with Orbax itself (extra jax).

Names are the path in the tree joined with dots, as in `aireprune.files.flax`. The state of the optimiser is left out of
a copy. config.json and plan.json stand in the folder, where Flax does not take them for checkpoints; a configuration
NAME.json beside the folder NAME is read too.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.arrays import Edit, Shape
from aireprune.errors import AireError, shown
from aireprune.files.configs import CONFIG, ConfigLike, find_config
from aireprune.files.dtypes import cast, to_bfloat16, widen
from aireprune.files.flax.checkpoint import OPTIMISER
from aireprune.files.json_text import json_text
from aireprune.files.links import refuse_own
from aireprune.files.single import beside, refuse_file_name
from aireprune.files.weights import Keys, check_names, named, refuse_additions
from aireprune.files.writing.atomic import atomic_folder, explained
from aireprune.files.writing.finite import edited

MARKS = ("_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt")
BFLOAT16 = "bfloat16"


def is_orbax(folder: Path) -> bool:
    """Whether a folder is an Orbax checkpoint, or holds one alone (a step of its CheckpointManager)."""
    return any((folder / mark).is_file() for mark in MARKS)


class OrbaxCheckpoint:
    """A folder with a tree of arrays; see `aireprune.files.base.Checkpoint`."""

    kind = "orbax"

    def __init__(self, path: Path, config: ConfigLike = None) -> None:
        self.path = path
        self._orbax = _library(path)
        inner = [sub.name for sub in path.iterdir() if sub.is_dir() and (sub / MARKS[0]).is_file()]
        if not (path / MARKS[0]).is_file():
            found = f": name {path / inner[0]}, which is in it" if inner else ", or files of it are missing"
            raise AireError(f"{path} is no whole Orbax checkpoint (it has no {MARKS[0]}){found}.")
        leaves = {keys: leaf for keys, leaf in _leaves(self._described()) if getattr(leaf, "shape", None)}
        self._dropped = sorted({str(keys[0]) for keys in leaves if keys[0] in OPTIMISER})
        kept = ((keys, tuple(leaf.shape)) for keys, leaf in leaves.items() if keys[0] not in OPTIMISER)
        self._names = named(path, "arrays", kept)
        if not self._names:
            raise AireError(f"{path} holds no arrays; expected a tree of parameters or a train state.")
        self.shapes: dict[str, Shape] = {name: shape for name, (_, shape) in self._names.items()}
        default = path / CONFIG if (path / CONFIG).exists() else beside(path, "json")
        self.config: Mapping[str, Any] = find_config(path, config, default).values
        self.notices: list[str] = []
        if self._dropped:
            names = ", ".join(self._dropped)
            self.notices.append(f"{shown(path.name)}: the optimiser state ({names}) is left out of a copy.")

    def __getitem__(self, name: str) -> np.ndarray:
        values = self._tree
        for key in self._names[name][0]:
            values = values[key]
        return widen(values.view("<u2")) if values.dtype.name == BFLOAT16 else np.asarray(values)

    def check_target(self, target: Path) -> None:
        refuse_file_name(target)

    def write(
        self,
        target: Path,
        edits: Mapping[str, Edit],
        config: Mapping[str, Any] | None = None,
        extras: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """See `Checkpoint.write`. The target is a directory."""
        check_names(self.path, edits, self.shapes)
        refuse_additions(self.path, edits)
        config = self.config if config is None else config
        texts = {**(extras or {}), **({CONFIG: json_text(config)} if config else {})}
        self.check_target(target)
        with explained(target):
            refuse_own([self.path], [target])
            if target.is_dir() and any(target.iterdir()) and not is_orbax(target):
                raise AireError(f"{target} is a directory but not a checkpoint, so it is not replaced.")
        tree = {key: value for key, value in self._tree.items() if key not in OPTIMISER}
        tree = _replaced(tree, {self._names[name][0]: self._edited(name, edit) for name, edit in edits.items()})
        with atomic_folder(target, overwrite) as folder:
            folder.rmdir()  # Orbax makes it itself
            with self._explained():
                self._reader.save(folder.resolve(), tree)
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")

    def _edited(self, name: str, edit: Edit) -> Any:
        where = f"{self.path}: array {shown(name)}"
        old, values = self._tree, edited(self[name], edit, where)
        for key in self._names[name][0]:
            old = old[key]
        if old.dtype.name == BFLOAT16:
            return to_bfloat16(values, where).view(old.dtype)
        return cast(values, old.dtype, where)

    @cached_property
    def _reader(self) -> Any:
        return self._orbax.PyTreeCheckpointer()

    def _described(self) -> Any:
        """The tree with shapes and types in place of values."""
        with self._explained():
            found = self._reader.metadata(self.path.resolve()).item_metadata
            if found is None:
                raise ValueError("files that say where its arrays are cannot be read")
            return found.tree

    @cached_property
    def _tree(self) -> Any:
        """All values, read once."""
        with self._explained():
            types = _mapped(self._described(), lambda _: self._orbax.RestoreArgs(restore_type=np.ndarray))
            return self._reader.restore(self.path.resolve(), restore_args=types)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever Orbax raises about a folder, as one sentence."""
        try:
            with _quiet():
                yield
        except (AireError, MemoryError):
            raise
        except Exception as problem:
            first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            raise AireError(
                f"{self.path} is an Orbax checkpoint that is damaged or not whole: {shown(first.rstrip('.'), 200)}."
            ) from None


def _library(path: Path) -> Any:
    try:
        with _quiet():
            return import_module("orbax.checkpoint")
    except ModuleNotFoundError:
        raise AireError(
            f"{path} is an Orbax checkpoint, and Orbax is not installed: pip install orbax-checkpoint, or 'aireprune[jax]'."
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Orbax and its libraries log and warn about each other."""
    log = logging.getLogger("absl")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _leaves(node: Any, where: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Everything in a tree of dictionaries and lists, with its way."""
    inner = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list | tuple) else None
    if inner is None:
        yield where, node
    else:
        for key, value in inner:
            yield from _leaves(value, (*where, key))


def _mapped(node: Any, change: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _mapped(value, change) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_mapped(value, change) for value in node]
    return node if node is None else change(node)


def _replaced(tree: Any, values: Mapping[Keys, Any], where: Keys = ()) -> Any:
    """The tree with other values in some places."""
    if where in values:
        return values[where]
    if isinstance(tree, Mapping):
        return {key: _replaced(value, values, (*where, key)) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_replaced(value, values, (*where, key)) for key, value in enumerate(tree)]
    return tree
