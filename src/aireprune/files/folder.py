"""Checkpoint directories: Hugging Face models, sharded or not, and our own format.

Our own format is a directory with config.json (which says "format": "aireprune"), model.safetensors and plan.json.
A copy is made shard by shard, two at a time, without ever building the model; tokenizers and the like come along.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.arrays import Added, Edit, Shape
from aireprune.errors import AireError, shown
from aireprune.files.configs import CONFIG, ConfigLike, find_config
from aireprune.files.folder_parts import companions, find_parts
from aireprune.files.front_matter import README
from aireprune.files.json_text import json_text
from aireprune.files.links import real
from aireprune.files.open import open_weights
from aireprune.files.reading import ends, open_plain
from aireprune.files.refusals import HEAD, TAIL, refuse_foreign
from aireprune.files.safetensors.checkpoint import Raw, SafetensorsFile, write_arrays
from aireprune.files.shards import Kept, Shard, ShardWork, write_shards
from aireprune.files.single import refuse_file_name
from aireprune.files.uploading import Elsewhere, described
from aireprune.files.urls import as_url
from aireprune.files.weights import Size, Weights, check_names, refuse_additions
from aireprune.files.writing.atomic import atomic_folder, explained, refuse_existing
from aireprune.files.writing.journal import settle

FORMAT = "aireprune"
BASE_README = "README.base"
KEPT_README = re.compile(r"README(\.base)*\.md")
PLAN = "plan.json"


class FolderCheckpoint:
    """A directory with weights in one or more files. url: where it really is, if that is elsewhere."""

    url: str | None = None

    def __init__(self, path: Path, config: ConfigLike = None) -> None:
        self.path = path
        found = find_config(path, config, path / CONFIG)
        self.config: Mapping[str, Any] = found.values
        self.kind = "aire" if self.config.get("format") == FORMAT else "huggingface"
        self.notices: list[str] = []
        self.work = ShardWork()  # how a copy's shards are written
        self._given = config is not None
        self._parts = find_parts(path)
        self._companions = list(companions(path, self._parts, self.notices))
        self._shards: dict[str, Weights] = {name: self.open_shard(name) for name in self._parts.names}
        self.notices += [notice for shard in self._shards.values() for notice in shard.notices]
        self._owner = self._owners()
        self._sources = [*(path / name for name in self._parts.names), *(path / name for name in self._companions)]
        self._sources += [] if found.file is None else [found.file]

    def open_shard(self, name: str) -> Weights:
        """One of the files of weights."""
        return _open_shard(self.path / name)

    @property
    def shapes(self) -> Mapping[str, Shape]:
        return {name: self._shards[shard].shapes[name] for name, shard in self._owner.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._shards[self._owner[name]][name]

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
        """See `Checkpoint.write`. The target is a directory; an existing one is only replaced if it is a checkpoint."""
        check_names(self.path, edits, self._owner)
        for name, shard in self._shards.items():
            if not isinstance(shard, SafetensorsFile):
                refuse_additions(self.path / name, _edits_of(edits, shard.shapes))
        texts = dict(extras or {})
        if config is not None or self._given:
            texts[CONFIG] = json_text(self.config if config is None else config)
        if (url := as_url(target)) is not None:
            self._send(Elsewhere(url, described(self._belongings(texts))), edits, texts, overwrite)
            return
        with explained(target):
            self._check_apart(target)
            _check_target(target, overwrite)
        with atomic_folder(target, overwrite) as folder:
            for relative, new in self._coming_along(texts, edits).items():
                _copy(self.path / relative, folder / new)
            sizes = self._write_shards(folder, edits, self._kept(target, texts) if self.work.resume else None)
            if self._parts.index_name is not None:
                texts[self._parts.index_name] = json_text(self._index(sizes, edits))
            _write_texts(folder, texts)

    def _owners(self) -> dict[str, str]:
        """Tensor -> the shard it is in. Everything the index promises must be there."""
        if self._parts.index_name is None:
            (only,) = self._shards
            return dict.fromkeys(self._shards[only].shapes, only)
        for name, shard in self._parts.weight_map.items():
            if name not in self._shards[shard].shapes:
                raise AireError(
                    f"{self.path / shard} has no tensor {shown(name)}, which {self._parts.index_name} says it has."
                )
        return dict(self._parts.weight_map)

    def _check_apart(self, target: Path) -> None:
        """Refuse a target that is part of the source or holds some of it."""
        here, there = real(self.path), real(target)
        if here.is_relative_to(there) or there.is_relative_to(here):
            raise AireError(
                f"{target} is the checkpoint that is read ({self.path}), or lies in or around it; choose another output."
            )
        for source in self._sources:
            if real(source).is_relative_to(there):
                raise AireError(f"{target} holds {source}, which is being read. Choose another output.")

    def _write_shards(self, folder: Path, edits: Mapping[str, Edit], kept: Kept | None) -> list[Size]:
        return write_shards(self._edited(edits), folder, self.work, kept)

    def _send(self, place: Elsewhere, edits: Mapping[str, Edit], texts: dict[str, str], overwrite: bool) -> None:
        """The same elsewhere."""
        if self.work.ray is not None:
            raise AireError(f"A cluster writes to a disk that all nodes have; {place.url} is written without ray=.")
        place = place.begin(self.work, overwrite)
        sizes = place.send_shards(self._edited(edits), self.work, place.known(self.work))
        for relative, new in self._coming_along(texts, edits).items():
            if str(relative) == CONFIG:
                texts[CONFIG] = (self.path / relative).read_text(encoding="utf-8")
            else:
                place.send_file(self.path / relative, new.as_posix())
        if self._parts.index_name is not None:
            texts[self._parts.index_name] = json_text(self._index(sizes, edits))
        place.finish(texts)

    def _edited(self, edits: Mapping[str, Edit]) -> list[Shard]:
        return [Shard(shard, _edits_of(edits, shard.shapes)) for shard in self._shards.values()]

    def _coming_along(self, texts: Mapping[str, str], edits: Mapping[str, Edit]) -> dict[Path, Path]:
        """The other files, but for those that are written anew, and what each is called in the copy."""
        names = {path: _kept_readme(path) if README in texts else path for path in self._companions}
        return {old: new for old, new in names.items() if str(new) not in texts and not (edits and str(old) == PLAN)}

    def _kept(self, target: Path, texts: Mapping[str, str]) -> Kept:
        """What an earlier run has finished of the same shards and the same plan."""
        return Kept(target, self._belongings(texts))

    def _belongings(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """What decides which bytes the shards of a copy have."""
        states = [(self.path / name).stat() for name in self._shards]
        times = [None if self.url else one.st_mtime_ns for one in states]
        files = [[name, one.st_size, time] for name, one, time in zip(self._shards, states, times, strict=True)]
        return {"source": self.url or str(real(self.path)), "shards": files, **texts}

    def _index(self, sizes: list[Size], edits: Mapping[str, Edit]) -> dict[str, Any]:
        """The index with new tensors and its totals counted anew."""
        metadata = dict(self._parts.index.get("metadata") or {})
        metadata["total_size"] = sum(size.bytes for size in sizes)
        if "total_parameters" in metadata:
            metadata["total_parameters"] = sum(size.elements for size in sizes)
        new = {name: self._owner[edit.like] for name, edit in edits.items() if isinstance(edit, Added)}
        return {**self._parts.index, "metadata": metadata, "weight_map": {**self._parts.weight_map, **new}}


def write_folder(
    target: Path,
    arrays: Mapping[str, np.ndarray | Raw],
    config: Mapping[str, Any],
    extras: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a new directory in our own format: config.json, model.safetensors and the extras (plan.json)."""
    write_checkpoint_folder(target, arrays, {"format": FORMAT, **config}, extras, overwrite)


def write_checkpoint_folder(
    target: Path,
    arrays: Mapping[str, np.ndarray | Raw],
    config: Mapping[str, Any],
    extras: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a new directory whose config.json says what it holds: config.json, model.safetensors and the extras."""
    with explained(target):
        _check_target(target, overwrite)
    with atomic_folder(target, overwrite) as folder:
        write_arrays(folder / "model.safetensors", arrays, {"format": "pt"})
        _write_texts(folder, {**(extras or {}), CONFIG: json_text(config)})


def _kept_readme(path: Path) -> Path:
    """What a file is called beside a new README: that of the original is README.base.md, its original's
    README.base.base.md."""
    return Path(f"{BASE_README}{path.name.removeprefix(README[:-3])}") if KEPT_README.fullmatch(str(path)) else path


def _edits_of(edits: Mapping[str, Edit], shapes: Mapping[str, Shape]) -> dict[str, Edit]:
    """The edits of tensors that a shard has, and those that stand beside them."""
    return {name: edit for name, edit in edits.items() if (edit.like if isinstance(edit, Added) else name) in shapes}


def _open_shard(path: Path) -> Weights:
    refuse_foreign(path, *ends(path, HEAD, TAIL))
    return open_weights(path, "safetensors" if path.suffix == ".safetensors" else "torch")


def _copy(source: Path, target: Path) -> None:
    """A copy of a plain file with its permissions, in folders made as needed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_plain(source) as read, target.open("wb") as written:
        shutil.copyfileobj(read, written)
        os.chmod(target, os.fstat(read.fileno()).st_mode & 0o777)


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _check_target(target: Path, overwrite: bool) -> None:
    """Refuse what names a file, or would replace a directory that is something else than a checkpoint."""
    settle(target)
    refuse_existing(target, overwrite)
    refuse_file_name(target)
    if not target.is_dir():
        if target.exists():
            raise AireError(f"{target} is a file, but the output is a directory. Choose another output.")
        return
    if any(target.iterdir()) and ((target / ".git").exists() or not _has_weights(target)):
        raise AireError(f"{target} is a directory but not a checkpoint, so it is not replaced. Choose another output.")


def _has_weights(folder: Path) -> bool:
    try:
        find_parts(folder)
    except AireError:
        return False
    return True
