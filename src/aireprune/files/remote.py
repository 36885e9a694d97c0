"""Checkpoint folders elsewhere (s3://, gs://, memory://, …), through fsspec: never more than a few shards are here.

A folder is opened as a local one that has its small files and, for every shard, a file with the header and a hole in
place of the data. Tensors are read from where they are, by their range of bytes; a shard comes here while it is copied.
What makes a folder a checkpoint is written last (`aireprune.files.uploading`).
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from aireprune.arrays import Edit
from aireprune.errors import AireError
from aireprune.files.configs import ConfigLike
from aireprune.files.dtypes import decode
from aireprune.files.folder import FolderCheckpoint
from aireprune.files.folder_parts import SUFFIXES
from aireprune.files.safetensors.checkpoint import SafetensorsFile
from aireprune.files.safetensors.header import MAX_HEADER
from aireprune.files.urls import found_at
from aireprune.files.weights import Size, Weights

SMALL = 64 << 20  # bytes of the largest file that comes along


def open_remote(url: str, config: ConfigLike = None) -> RemoteFolder:
    """A folder with safetensors, elsewhere."""
    mirror = Path(tempfile.mkdtemp(prefix="aire-"))
    try:
        folder = mirror / (PurePosixPath(url).name or "checkpoint")
        folder.mkdir()
        _fetch_small(url, folder)
        found = RemoteFolder(url, folder, config)
    except BaseException:
        shutil.rmtree(mirror, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, mirror, ignore_errors=True)
    return found


def _fetch_small(url: str, folder: Path) -> None:
    """The small files of the folder at a URL, and the headers of its shards."""
    with found_at(url) as (filesystem, root):
        sizes = _files(filesystem, root)
        if not any(name.endswith(".safetensors") for name in sizes):
            raise AireError(f"{url} holds no safetensors files: elsewhere, only folders with these are read.")
        for name, size in sizes.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".safetensors"):
                _fetch_header(filesystem, f"{root}/{name}", target, size)
            elif size <= SMALL and not (name.endswith(SUFFIXES) and not name.endswith(".index.json")):
                filesystem.get_file(f"{root}/{name}", str(target))


class RemoteFolder(FolderCheckpoint):
    """The mirror of a folder elsewhere; it is removed with this object."""

    def __init__(self, url: str, folder: Path, config: ConfigLike) -> None:
        self.url = url
        super().__init__(folder, config)

    def open_shard(self, name: str) -> Weights:
        if not name.endswith(".safetensors"):
            raise AireError(f"{self.url}/{name}: elsewhere, only safetensors are read.")
        return RemoteShard(f"{self.url}/{name}", self.path / name)


class RemoteShard(SafetensorsFile):
    """A file elsewhere, of which `path` has the header."""

    def __init__(self, url: str, path: Path) -> None:
        super().__init__(path)
        self.url = url

    def __getitem__(self, name: str) -> np.ndarray:
        entry, start = self.header.entries[name], self.header.data
        with found_at(self.url) as (filesystem, root):
            data = filesystem.cat_file(root, start=start + entry.start, end=start + entry.end) if entry.size else b""
        return decode(np.frombuffer(data, np.uint8), entry.dtype, entry.shape, f"{self.url}: tensor {name}")

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        with _here(self.url, target.parent) as whole:
            return SafetensorsFile(whole).copy_edited(target, edits)


@contextmanager
def _here(url: str, folder: Path) -> Iterator[Path]:
    """A file from elsewhere, in a folder for a while."""
    with tempfile.TemporaryDirectory(prefix=".aire-", dir=folder) as room, found_at(url) as (filesystem, root):
        path = Path(room) / PurePosixPath(url).name
        filesystem.get_file(root, str(path))
        yield path


def _files(filesystem: Any, root: str) -> dict[str, int]:
    """Bytes of every file of a folder by its relative name; names that lead out of it are left alone."""
    found = {}
    for path, facts in filesystem.find(root, detail=True).items():
        name = str(path)[len(root) :].lstrip("/")
        if name and not re.search(r"(^|/)\.", name):
            found[name] = int(facts["size"])
    return found


def _fetch_header(filesystem: Any, remote: str, target: Path, size: int) -> None:
    """The header at its place, then a hole as long as the data."""
    start = filesystem.cat_file(remote, start=0, end=min(8, size))
    length = min(8 + int.from_bytes(start, "little"), size, 8 + MAX_HEADER)
    with target.open("wb") as file:
        file.write(filesystem.cat_file(remote, start=0, end=length))
        file.truncate(size)
