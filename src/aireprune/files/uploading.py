"""A checkpoint folder written elsewhere, shard by shard: every shard is made here, sent and removed.

A folder that is to be replaced stays as it is until the new one is there, beside it. Object stores rename nothing, so
files then take the old ones' places one by one; meanwhile there is no index and no config.json, and so no checkpoint.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aireprune.errors import AireError
from aireprune.files.configs import CONFIG
from aireprune.files.shards import Shard, ShardWork
from aireprune.files.urls import ROOTED, found_at
from aireprune.files.weights import Size

NOTES = ".shards.json"  # which shards are there, while not all are


@dataclass(frozen=True)
class Elsewhere:
    """The folder at a URL that is being written. belongs: everything that decides what its shards hold.

    at: where it is written, if that is not the URL yet.
    """

    url: str
    belongs: str
    at: str = ""

    @property
    def place(self) -> str:
        return self.at or self.url

    def begin(self, work: ShardWork, overwrite: bool) -> Elsewhere:
        """The same folder, to be written beside the one that it replaces, if there is one and it is allowed to go."""
        with found_at(self.url) as (filesystem, root):
            if not filesystem.exists(root) or not filesystem.find(root):
                return self
        if work.resume and self._noted() is not None:
            return self
        if not overwrite:
            raise AireError(
                f"{self.url} exists already. Choose another output, or allow it to be replaced with overwrite=True."
            )
        return replace(self, at=_beside(self.url))

    def known(self, work: ShardWork) -> dict[str, Size]:
        """The shards that an earlier run has sent, by name; without these, what it left is removed."""
        found = self._noted() if work.resume else None
        if found is not None:
            return found
        with found_at(self.place) as (filesystem, root):
            if filesystem.exists(root):
                filesystem.rm(root, recursive=True)
        return {}

    def _noted(self) -> dict[str, Size] | None:
        """What an earlier run of the same work has noted where this is written."""
        with found_at(self.place) as (filesystem, root):
            if not filesystem.exists(f"{root}/{NOTES}"):
                return None
            notes = json.loads(filesystem.cat_file(f"{root}/{NOTES}"))
        same = notes["belongs"] == self.belongs
        return {name: Size(*size) for name, size in notes["sizes"].items()} if same else None

    def send_shards(self, shards: Sequence[Shard], work: ShardWork, sizes: dict[str, Size]) -> list[Size]:
        """All shards that are not there yet; sizes: of those that are, by name."""
        for shard in shards:
            name = shard.path.name
            if name in sizes:
                continue
            with tempfile.TemporaryDirectory(prefix="aire-") as room:
                sizes[name] = shard.write(Path(room) / name)
                self.send_file(Path(room) / name, name)
            if work.resume:
                self.send_text(NOTES, json.dumps({"belongs": self.belongs, "sizes": sizes}))
            work.report(f"shard {len(sizes)} of {len(shards)} sent: {name}, {sizes[name].bytes / 1e6:,.0f} MB")
        return [sizes[shard.path.name] for shard in shards]

    def finish(self, texts: Mapping[str, str]) -> None:
        """Small files, config.json and the index last; from then on it is a checkpoint."""
        for name in sorted(texts, key=_turn):
            self.send_text(name, texts[name])
        with found_at(self.place) as (filesystem, root):
            if filesystem.exists(f"{root}/{NOTES}"):
                filesystem.rm_file(f"{root}/{NOTES}")
        if self.at:
            self._take_place()

    def _take_place(self) -> None:
        """What is whole beside the URL goes there; the index and config.json leave first and come last."""
        with found_at(self.url) as (filesystem, root), found_at(self.at) as (_, new):
            names, old = _names(filesystem, new), _names(filesystem, root)
            for name in sorted(old, key=_turn, reverse=True):
                if _turn(name) or name not in names:
                    filesystem.rm_file(f"{root}/{name}")
            for name in sorted(names, key=_turn):
                filesystem.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
                filesystem.mv(f"{new}/{name}", f"{root}/{name}")
            if filesystem.exists(new):
                filesystem.rm(new, recursive=True)

    def send_file(self, path: Path, name: str) -> None:
        with found_at(self.place) as (filesystem, root):
            filesystem.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            filesystem.put_file(str(path), f"{root}/{name}")

    def send_text(self, name: str, text: str) -> None:
        with found_at(self.place) as (filesystem, root):
            filesystem.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            filesystem.pipe_file(f"{root}/{name}", text.encode())


def _turn(name: str) -> int:
    """When a file comes: what makes a folder a checkpoint is last."""
    return 2 if name.endswith(".index.json") else int(name == CONFIG)


def _names(filesystem: Any, root: str) -> list[str]:
    """Of all files of a folder, relative to it."""
    return [str(path)[len(root) :].lstrip("/") for path in filesystem.find(root)]


def _beside(url: str) -> str:
    """Where the folder that will replace the one at a URL is written."""
    scheme, _, path = url.partition("://")
    head, slash, name = path.rpartition("/")
    if not slash and scheme not in ROOTED:
        raise AireError(f"{url} is a whole bucket, which is not replaced: name a folder in it.")
    return f"{scheme}://{head}{slash}.{name}.new"


def described(facts: Mapping[str, Any]) -> str:
    """Everything that decides what shards hold, as text."""
    return json.dumps(dict(facts), sort_keys=True, default=str)
