"""A checkpoint folder written elsewhere, shard by shard: every shard is made here, sent and removed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aireprune.errors import AireError
from aireprune.files.configs import CONFIG
from aireprune.files.shards import Shard, ShardWork
from aireprune.files.urls import found_at
from aireprune.files.weights import Size

NOTES = ".shards.json"  # which shards are there, while not all are


@dataclass(frozen=True)
class Elsewhere:
    """The folder at a URL that is being written. belongs: everything that decides what its shards hold."""

    url: str
    belongs: str

    def begin(self, work: ShardWork, overwrite: bool) -> dict[str, Size]:
        """The shards that an earlier run has sent. A folder that exists otherwise has to be allowed to go."""
        with found_at(self.url) as (filesystem, root):
            if not filesystem.exists(root) or not filesystem.find(root):
                return {}
            if work.resume and filesystem.exists(f"{root}/{NOTES}"):
                notes = json.loads(filesystem.cat_file(f"{root}/{NOTES}"))
                if notes["belongs"] == self.belongs:
                    return {name: Size(*size) for name, size in notes["sizes"].items()}
            if not overwrite:
                raise AireError(
                    f"{self.url} exists already. Choose another output, or allow it to be replaced with overwrite=True."
                )
            filesystem.rm(root, recursive=True)
        return {}

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
        """Small files, config.json last; from then on it is a checkpoint."""
        for name in sorted(texts, key=lambda name: name == CONFIG):
            self.send_text(name, texts[name])
        with found_at(self.url) as (filesystem, root):
            if filesystem.exists(f"{root}/{NOTES}"):
                filesystem.rm_file(f"{root}/{NOTES}")

    def send_file(self, path: Path, name: str) -> None:
        with found_at(self.url) as (filesystem, root):
            filesystem.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            filesystem.put_file(str(path), f"{root}/{name}")

    def send_text(self, name: str, text: str) -> None:
        with found_at(self.url) as (filesystem, root):
            filesystem.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            filesystem.pipe_file(f"{root}/{name}", text.encode())


def sent(place: Elsewhere, shards: Sequence[Shard], work: ShardWork, overwrite: bool) -> list[Size]:
    """Shards at a place elsewhere."""
    if work.ray is not None:
        raise AireError(f"A cluster writes to a disk that all nodes have; {place.url} is written without ray=.")
    return place.send_shards(shards, work, place.begin(work, overwrite))


def described(facts: Mapping[str, Any]) -> str:
    """Everything that decides what shards hold, as text."""
    return json.dumps(dict(facts), sort_keys=True, default=str)
