"""A single file and what stands beside it: NAME.ext, its configuration NAME.json, and small texts NAME.plan.json."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aireprune.errors import AireError
from aireprune.files.atomic import atomic_paths

HUGGING_FACE_NAME = re.compile(r"(model|pytorch_model)([-.]|$)")
KINDS = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".ckpt": "torch",
    ".bin": "torch",
    ".msgpack": "flax",
}


def beside(path: Path, ending: str) -> Path:
    """NAME.ending next to NAME.ext. Only the suffixes of checkpoints are taken off: checkpoint_1.5 is a whole name."""
    name = path.stem if path.suffix.lower() in KINDS else path.name
    return path.with_name(f"{name}.{ending}")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AireError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise AireError(f"{path} is not readable as JSON ({error}).") from None
    if not isinstance(value, dict):
        raise AireError(f"{path} holds a JSON {type(value).__name__}; expected an object with named entries.")
    return value


def json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def read_config(path: Path, config: Mapping[str, Any] | str | Path | None, default: Path) -> dict[str, Any]:
    """The configuration of the checkpoint at `path`: the one given, else the default file, else none.

    A file called as Hugging Face calls its weights (model.safetensors, a shard) belongs to the config.json beside it.
    """
    if isinstance(config, Mapping):
        return dict(config)
    if config is not None:
        return read_json(Path(config))
    candidates = [default, path.parent / "config.json"] if HUGGING_FACE_NAME.match(path.name) else [default]
    found = next((candidate for candidate in candidates if candidate.is_file() and candidate != path), None)
    return read_json(found) if found is not None else {}


def check_names(path: Path, edits: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Edits of tensors that are not there would be lost without a word."""
    for name in edits:
        if name not in known:
            raise AireError(f"{path} has no tensor {name} to edit.")


def write_beside(
    source: Path,
    kind: str,
    target: Path,
    config: Mapping[str, Any] | None,
    extras: Mapping[str, str] | None,
    overwrite: bool,
    write: Callable[[Path], None],
) -> None:
    """Write OUT.ext with `write`, OUT.json if there is a configuration, and the extras; all of them or none.

    A target whose suffix belongs to another kind of file than the source is refused: conversion is not pruning.
    """
    if KINDS.get(target.suffix.lower(), kind) != kind:
        raise AireError(
            f"{source} is a {kind} file and so will its copy be, but {target} names another kind; keep the suffix."
        )
    texts = dict(extras or {})
    targets = [target, *(beside(target, name) for name in texts)]
    if config:
        targets.append(beside(target, "json"))
        texts["json"] = json_text(config)
    sources = {source.resolve(), beside(source, "json").resolve()}
    for path in targets:
        if path.resolve() in sources:
            raise AireError(f"Writing {path} would replace part of the checkpoint that is read. Choose another output.")
    with atomic_paths(targets, overwrite) as temporaries:
        write(temporaries[0])
        for temporary, text in zip(temporaries[1:], texts.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")
