"""Which files of a checkpoint directory hold its weights, which are copied beside them, and which are left behind.

A directory may come from anyone. An index may only name files of its own directory, and links may only lead to files
inside it or to the blobs of the Hugging Face cache it is part of: nothing else on the machine ends up in a copy.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aireprune.errors import AireError, shown
from aireprune.files.json_text import read_json
from aireprune.files.links import check_link, stays_inside
from aireprune.files.refusals import refuse_foreign_folder

SINGLE = ("model.safetensors", "pytorch_model.bin")
INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
SEARCHED = (SINGLE[0], INDEX[0], SINGLE[1], INDEX[1])
TRAINING = (
    "optimizer*",
    "scheduler*",
    "scaler.pt",
    "rng_state*",
    "random_states_*",
    "trainer_state.json",
    "training_args.*",
    "events.out.*",
    "zero_to_fp32.py",
    "latest",
)
TRAINING_FOLDERS = ("checkpoint-*", "global_step*", "runs", "logs", "wandb")
SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".pkl", ".index.json")


@dataclass(frozen=True)
class Parts:
    """The weight files by name and, if there is one, their index."""

    names: list[str]
    index_name: str | None
    index: Mapping[str, Any]

    @property
    def weight_map(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.index.get("weight_map", {})
        return found


def find_parts(folder: Path) -> Parts:
    """The weights of a directory: safetensors before PyTorch files, as transformers has it."""
    for name in SEARCHED:
        path = folder / name
        if not os.path.lexists(path):
            continue
        check_link(folder, path)
        if not name.endswith(".index.json"):
            return Parts([name], None, {})
        return _indexed(folder, name)
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    if len(others) == 1:
        check_link(folder, folder / others[0])
        return Parts(others, None, {})
    refuse_foreign_folder(folder)
    hint = f" It has several: {_listed(others)}; name one of them instead of the directory." if others else ""
    if not others:
        files = sorted(p.name for p in folder.iterdir() if p.suffix in (".pt", ".pth", ".ckpt", ".msgpack", ".bin"))
        hint = f" It does hold {shown(files[0])}; name that file instead of the directory." if files else ""
    raise AireError(f"{folder} holds no checkpoint: expected one of {', '.join(SEARCHED)}.{hint}")


def _indexed(folder: Path, name: str) -> Parts:
    index = read_json(folder / name)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(f, str) for f in weight_map.values()):
        raise AireError(f"{folder / name} has no weight_map from tensors to files.")
    if not isinstance(index.get("metadata") or {}, dict):
        raise AireError(f"{folder / name}: its metadata is no object with named entries.")
    shards = list(dict.fromkeys(weight_map.values()))
    for shard in shards:
        if shard in ("", ".", "..") or "/" in shard or "\\" in shard or "\0" in shard:
            raise AireError(
                f"{folder / name} names the file {shown(repr(shard))}; only files of the directory itself are allowed."
            )
        path = folder / shard
        if not os.path.lexists(path):
            raise AireError(f"{folder} lacks the file {shown(shard)}, which {name} names: download it, then try again.")
        check_link(folder, path)
    return Parts(shards, name, index)


def companions(folder: Path, parts: Parts, notices: list[str]) -> Iterator[Path]:
    """Relative paths of the other files to copy. What is left out goes to `notices`."""
    own = {*parts.names, parts.index_name}
    training: list[str] = []
    duplicates: list[str] = []
    outside: list[str] = []
    for parent, folders, files in os.walk(folder):
        kept = [name for name in sorted(folders) if not name.startswith((".", "__"))]
        folders[:] = [name for name in kept if not _matches(name, TRAINING_FOLDERS)]
        training += [f"{name}/" for name in kept if name not in folders]
        for name in sorted(files):
            path = Path(parent, name)
            relative = path.relative_to(folder)
            if name.startswith(".") or str(relative) in own:
                continue
            if _matches(name, TRAINING):
                training.append(str(relative))
            elif name.endswith(SUFFIXES):
                duplicates.append(str(relative))
            elif not path.is_file() or not stays_inside(folder, path):
                outside.append(str(relative))
            else:
                yield relative
    reasons = ("left over from training", "other weights, which are not pruned", "no files of the directory")
    for names, reason in zip((training, duplicates, outside), reasons, strict=True):
        if names:
            notices.append(f"Not copied, as {reason}: {_listed(names)}.")


def _listed(names: list[str], most: int = 20) -> str:
    """Names in a sentence; of many, the first."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown(name) for name in names[:most]) + rest


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
