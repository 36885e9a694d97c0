"""What the model that was pruned is called where others know it, and what its card says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from aireprune.files.front_matter import README, read_front_matter
from aireprune.files.urls import as_url

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)")  # a folder of the Hugging Face cache
HUB_URL = re.compile(r"hf://(?:models/)?([^/@]+/[^/@]+)")


@dataclass(frozen=True)
class BaseModel:
    """name: its id on the Hub, owner/name, or the name of its folder; never the place where that was. front: the entries
    of its card; readme: whether it has one."""

    name: str
    front: Mapping[str, str] = field(default_factory=dict)
    readme: bool = False

    @property
    def is_id(self) -> bool:
        return "/" in self.name

    @property
    def short(self) -> str:
        return self.name.rpartition("/")[2]


def base_model(where: str, folder: Path | None = None) -> BaseModel:
    """where: a path, a URL or an id on the Hub. folder: where its files can be read, if that is elsewhere."""
    place = Path(where) if folder is None else folder
    front = read_front_matter(place) if place.is_dir() else {}
    return BaseModel(_name(where), front, (place / README).is_file())


def _name(where: str) -> str:
    if (url := as_url(where)) is not None:
        found = HUB_URL.match(url)
        return found[1] if found is not None else PurePosixPath(url).name
    path = Path(where)
    if not path.exists() and HUB_ID.fullmatch(where):
        return where
    for part in reversed(path.resolve().parts):
        if (cached := CACHED.fullmatch(part)) is not None:
            return f"{cached[1]}/{cached[2]}"
    return path.resolve().name or "unknown"
