"""Open a checkpoint of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aireprune.errors import AireError
from aireprune.files.base import Checkpoint
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
    directory is a Hugging Face model or our own format. A file is recognised by its suffix (.safetensors; .pt, .pth,
    .ckpt, .bin; .msgpack), and without one of these by its first bytes. `config` (a mapping or a JSON file) takes the
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
        if path.is_dir():
            from aireprune.files.folder import FolderCheckpoint

            return FolderCheckpoint(path, config)
        if not path.exists():
            refuse_missing(path)
        if not path.is_file():
            raise AireError(f"{path} is neither a file nor a directory.")
        head, tail = ends(path, HEAD, TAIL)
        refuse_foreign(path, head, tail)
        kind = KINDS.get(path.suffix.lower()) or _sniff(path, head)
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
    from aireprune.files.flax.checkpoint import FlaxFile

    return FlaxFile(path)


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
    raise AireError(f"{path} {found}; expected a safetensors, PyTorch or Flax (msgpack) file, or a directory with one.")
