"""Data that took time to make or to decode, kept on disk as plain .npy files and mapped into memory when used again."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.folders import cache_folder
from aireprune.tasks.base import Split

Writer = Callable[[Path], None]


def cached(name: str, settings: object, write: Writer) -> Split:
    """The split that `write` puts into a folder (x.npy, y.npy, maybe lengths.npy), written once per `settings`.

    A folder that cannot be read is written again. Its name has a digest of repr(settings): whatever changes the data has
    to be in there.
    """
    digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name}-{digest}"
    if not folder.is_dir():
        _make(folder, write)
    try:
        return _read(folder)
    except (OSError, ValueError, EOFError):  # the disk was full, or somebody was here: make it again
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, write)
    try:
        return _read(folder)
    except (OSError, ValueError, EOFError) as error:
        raise AireError(
            f"The cache {folder} cannot be read ({error}). Delete it, or name another folder for the cache in the "
            "environment variable AIRE_CACHE."
        ) from error


def _read(folder: Path) -> Split:
    x, y = _mapped(folder / "x.npy"), np.array(_mapped(folder / "y.npy"), np.int64)
    lengths = _mapped(folder / "lengths.npy") if (folder / "lengths.npy").exists() else None
    if not len(x) == len(y) == len(y if lengths is None else lengths):
        raise ValueError("its arrays do not belong together")
    return Split(x, y, lengths)


def _make(folder: Path, write: Writer) -> None:
    """Written beside its place and then renamed; of several processes that make the same, the first one's stays."""
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        with suppress(OSError):  # somebody was first; anything else is noticed when the folder is read
            temporary.rename(folder)
    except OSError as error:
        raise AireError(
            f"The cache {folder} cannot be written ({error.strerror or error}). The environment variable AIRE_CACHE names "
            "another folder for it."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def stamp(path: Path) -> tuple[str, int, int]:
    """What changes when the file does."""
    state = path.stat()
    return str(path.resolve()), state.st_size, state.st_mtime_ns


def _mapped(path: Path) -> np.ndarray:
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise ValueError(f"{path.name} holds no examples")
    return array


def write_arrays(folder: Path, **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def sections(split: Split, *counts: int) -> list[Split]:
    """The first counts[0] examples, the next counts[1], ..."""
    bounds = np.cumsum((0, *counts))
    return [split.rows(slice(int(a), int(b))) for a, b in pairwise(bounds)]
