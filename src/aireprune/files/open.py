"""Open a checkpoint of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aireprune.errors import AireError
from aireprune.files.base import Checkpoint
from aireprune.files.orbax.checkpoint import OrbaxCheckpoint, is_orbax
from aireprune.files.reading import ends
from aireprune.files.refusals import HEAD, TAIL, refuse_by_suffix, refuse_foreign, refuse_missing
from aireprune.files.single import KINDS, SingleCheckpoint
from aireprune.files.urls import as_url
from aireprune.files.weights import Weights
from aireprune.files.writing.journal import settle
from aireprune.zoo import locate


def open_checkpoint(path: str | Path, config: Mapping[str, Any] | str | Path | None = None) -> Checkpoint:
    """Open a checkpoint for reading; see `Checkpoint` for what can be done with it.

    zoo:NAME is a model that comes with the package. A URL (s3://, gs://, …) is a folder with safetensors elsewhere. A
    directory is a Hugging Face model, our own format or an Orbax checkpoint. A file is recognised by its suffix
    (.safetensors; .pt, .pth, .ckpt, .bin; .msgpack; .npz), and without one of these by its first bytes; a GGUF file and an
    archive of NumPy by these alone. `config` (a mapping or a JSON file) takes the
    place of config.json in a directory, or of NAME.json beside a file.

    A copy written by `Checkpoint.write` is of the same kind as its source. To convert, read the arrays and pass them to
    `write_folder`.
    """
    if (url := as_url(path)) is not None:
        from aireprune.files.remote import open_remote

        return open_remote(url, config)
    path = locate(path)
    settle(path)
    try:
        if path.is_dir() and is_orbax(path):
            return OrbaxCheckpoint(path, config)
        if path.is_dir():
            from aireprune.files.folder import FolderCheckpoint

            return FolderCheckpoint(path, config)
        if not path.exists():
            refuse_missing(path)
        if not path.is_file():
            raise AireError(f"{path} is neither a file nor a directory.")
        head, tail = ends(path, HEAD, TAIL)
        if head.startswith(b"GGUF"):
            from aireprune.files.gguf.checkpoint import GGUFCheckpoint

            return GGUFCheckpoint(path, config)
        refuse_foreign(path, head, tail)
        kind = "npz" if _begins_with_an_array(head) else KINDS.get(path.suffix.lower()) or _sniff(path, head)
        return SingleCheckpoint(kind, open_weights(path, kind), config)
    except OSError as error:
        raise AireError(f"{path} cannot be read ({error.strerror or error}).") from error


def open_weights(path: Path, kind: str) -> Weights:
    """One file of weights of a known kind."""
    if kind == "safetensors":
        from aireprune.files.safetensors.checkpoint import SafetensorsFile

        return SafetensorsFile(path)
    if kind == "torch":
        from aireprune.files.torch.checkpoint import TorchFile

        return TorchFile(path)
    if kind == "npz":
        from aireprune.files.numpy.checkpoint import NpzFile

        return NpzFile(path)
    from aireprune.files.flax.checkpoint import FlaxFile

    return FlaxFile(path)


def _begins_with_an_array(head: bytes) -> bool:
    """Whether the first record of a zip archive is a file of NumPy."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    return head[:4] == b"PK\x03\x04" and name.endswith(b".npy")


def _sniff(path: Path, head: bytes) -> str:
    """The kind of a file from its first bytes."""
    head = head[:9]
    if len(head) == 9 and head[8:] == b"{" and head[5:8] == b"\0\0\0":
        return "safetensors"
    if head[:4] == b"PK\x03\x04" or (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")):
        return "torch"
    if head and (0x81 <= head[0] <= 0x8F or head[0] in (0xDE, 0xDF)):  # a msgpack map that is not empty
        return "flax"
    refuse_by_suffix(path)
    found = "is empty" if not head else f"begins with {head!r}"
    raise AireError(
        f"{path} {found}; expected a safetensors, PyTorch, Flax (msgpack) or NumPy (.npz) file, or a directory with one."
    )
