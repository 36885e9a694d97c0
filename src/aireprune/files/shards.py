"""The shards of a large checkpoint, written one after the other, by the nodes of a cluster, or where a killed run stopped.

Memory holds one tensor of each shard that is being written. With `resume`, finished shards stand beside the target in
.NAME.shards until all are there; what they belong to is written down, and another source or plan starts anew.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from aireprune.arrays import Edit
from aireprune.cluster import RETRIES, completed, connect
from aireprune.errors import AireError
from aireprune.files.reading import open_plain
from aireprune.files.weights import Size, Weights
from aireprune.files.writing.sync import sync

THREADS = 2
READ_AHEAD = 256 << 20  # bytes of the next shard that the system is asked to have ready
LARGE = 1 << 30  # bytes of all shards from which on every finished one is reported


@dataclass(frozen=True, kw_only=True)
class ShardWork:
    """How shards are written. resume: keep finished ones when the work is interrupted, and go on with those that are
    kept. ray: the cluster that writes them, all of whose nodes have the same disk. report: told of every finished one."""

    resume: bool = False
    ray: str | None = None
    report: Callable[[str], None] = lambda line: None


@dataclass(frozen=True)
class Shard:
    """A file of weights, and what becomes of it."""

    weights: Weights
    edits: Mapping[str, Edit]

    @property
    def path(self) -> Path:
        return self.weights.path

    def write(self, target: Path) -> Size:
        """An edited copy at `target`, on disk when this returns."""
        size = self.weights.copy_edited(target, self.edits)
        sync(target)
        return size


def write_shards(shards: Sequence[Shard], folder: Path, work: ShardWork, kept: Kept | None) -> list[Size]:
    """Edited copies of all shards in `folder`, under their names; kept: where finished ones wait for each other."""
    place = folder if kept is None else kept.folder
    sizes = {} if kept is None else kept.sizes()
    missing = [shard for shard in shards if shard.path.name not in sizes]
    telling = work.resume or work.ray is not None or sum(shard.path.stat().st_size for shard in shards) > LARGE
    with closing(_here(missing, place) if work.ray is None else _on_ray(work.ray, missing, place)) as written:
        for name, size in written:
            if kept is not None:
                kept.finish(name, size)
            sizes[name] = size
            if telling:
                work.report(f"shard {len(sizes)} of {len(shards)} written: {name}, {size.bytes / 1e6:,.0f} MB")
    if kept is not None:
        kept.move_to(folder, [shard.path.name for shard in shards])
    return [sizes[shard.path.name] for shard in shards]


Written = Generator[tuple[str, Size], None, None]


def _here(shards: Sequence[Shard], place: Path) -> Written:
    """In order, a few at a time, the next one read ahead."""

    def write(number: int) -> tuple[str, Size]:
        if number + THREADS < len(shards):
            _read_ahead(shards[number + THREADS].path)
        shard = shards[number]
        return shard.path.name, shard.write(_unfinished(place, shard))

    pool = ThreadPoolExecutor(THREADS)
    try:
        for name, size in pool.map(write, range(len(shards))):
            _finish(place, name)
            yield name, size
    finally:
        pool.shutdown(cancel_futures=True)


def _on_ray(address: str, shards: Sequence[Shard], place: Path) -> Written:
    ray = connect(address)
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(write_on_node)
    for name, size in completed(ray, [task.remote(shard, place) for shard in shards]):
        _finish(place, name)
        yield name, size


def write_on_node(shard: Shard, place: Path) -> tuple[str, Size]:
    """In a worker of a cluster."""
    check_disk(shard.path, place)
    return shard.path.name, shard.write(_unfinished(place, shard))


def check_disk(*paths: Path) -> None:
    """Raise unless all of them are there, where a node may have another disk than the others."""
    for path in paths:
        if not path.exists():
            raise AireError(
                f"{path} is not there on {socket.gethostname()}: the checkpoint and the output have to be on a disk that "
                "all nodes have, under the same name."
            )


def _unfinished(place: Path, shard: Shard) -> Path:
    return place / f"{shard.path.name}.part"


def _finish(place: Path, name: str) -> None:
    os.replace(place / f"{name}.part", place / name)


def _read_ahead(path: Path) -> None:
    if hasattr(os, "posix_fadvise"):
        with open_plain(path) as file:
            os.posix_fadvise(file.fileno(), 0, READ_AHEAD, os.POSIX_FADV_WILLNEED)


class Kept:
    """Finished shards of an interrupted run. belongs: everything that decides what they hold."""

    def __init__(self, target: Path, belongs: Mapping[str, object]):
        self.folder = target.parent / f".{target.name}.shards"
        wanted = json.dumps(dict(belongs), sort_keys=True, default=str)
        job = self.folder / "job.json"
        try:
            if not job.is_file() or job.read_text() != wanted:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
                job.write_text(wanted)
        except OSError as problem:
            raise AireError(f"{self.folder} cannot be written: {problem.strerror or problem}.") from problem

    def sizes(self) -> dict[str, Size]:
        """Of the shards that are there, by name. A size is written after its shard, so both are whole."""
        found = {}
        for path in self.folder.glob("*.size"):
            name = path.name.removesuffix(".size")
            with suppress(ValueError, TypeError):  # a note that was being written when the machine went down
                if (self.folder / name).is_file():
                    found[name] = Size(*map(int, json.loads(path.read_text())))
        return found

    def finish(self, name: str, size: Size) -> None:
        path = self.folder / f"{name}.size"
        path.write_text(json.dumps([size.bytes, size.elements]))
        sync(path)

    def move_to(self, folder: Path, names: Sequence[str]) -> None:
        """All shards to where the whole checkpoint is put together; nothing is kept from here on."""
        for name in names:
            os.replace(self.folder / name, folder / name)
        shutil.rmtree(self.folder, ignore_errors=True)
