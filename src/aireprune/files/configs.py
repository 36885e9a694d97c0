"""The configuration that belongs to a checkpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aireprune.files.json_text import read_json
from aireprune.files.links import check_link

CONFIG = "config.json"
HUGGING_FACE_NAME = re.compile(r"(model|pytorch_model)([-.]|$)")
ConfigLike = Mapping[str, Any] | str | Path | None


class Configuration(NamedTuple):
    """What a configuration says, and the file it was read from, if any."""

    values: Mapping[str, Any]
    file: Path | None = None


def find_config(path: Path, given: ConfigLike, default: Path) -> Configuration:
    """The configuration of the checkpoint at `path`: the one given, else the default file, else none.

    A file called as Hugging Face calls its weights (model.safetensors, a shard) belongs to the config.json beside it.
    """
    if isinstance(given, Mapping):
        return Configuration(dict(given))
    if given is not None:
        return Configuration(read_json(Path(given)), Path(given))
    candidates = [default, path.parent / CONFIG] if HUGGING_FACE_NAME.match(path.name) else [default]
    for candidate in candidates:
        if candidate != path and os.path.lexists(candidate):
            check_link(candidate.parent, candidate)
            return Configuration(read_json(candidate), candidate)
    return Configuration({})
