"""Which tasks there are, and where their data is."""

from __future__ import annotations

from dataclasses import dataclass

from aireprune.tasks import TASKS, images, language, listops, pathfinder, retrieval, speech, text
from aireprune.tasks.base import locate

EMBEDDED = ("digits",)  # part of the package
GENERATED = ("listops", "listops-mini", "pathfinder", "pathfinder-mini", "pathx")
PLACES: dict[str, tuple[str, ...]] = {
    "listops": listops.FOLDERS,
    "text": text.places("train"),
    "text-mini": text.places("train"),
    "retrieval": retrieval.PLACES,
    "retrieval-mini": text.places("train"),
    "image": images.cifar_places("train"),
    "pathfinder": pathfinder.places(32),
    "pathx": pathfinder.places(128),
    "speech": speech.FOLDERS,
    "speech-8k": speech.FOLDERS,
    "speech-mini": speech.MINI,
    "smnist": ("mnist.npz",),
    "lm": language.places("train"),
    "lm-mini": language.SHAKESPEARE,
    "scifar_rgb": ("cifar10_rgb_train512.npz",),
}


@dataclass(frozen=True)
class ListedTask:
    """A task as it is listed: data is the file or folder it is read from, "generated", "embedded" if it is part of the
    package, or None if it must be fetched."""

    name: str
    data: str | None
    what: str


def catalogue() -> list[ListedTask]:
    """Every task; nothing is loaded."""
    return [ListedTask(name, _data(name), (make.__doc__ or "").split("\n")[0]) for name, make in TASKS.items()]


def _data(name: str) -> str | None:
    path = locate(PLACES.get(name, ()))
    if path is not None:
        return str(path)
    return "generated" if name in GENERATED else "embedded" if name in EMBEDDED else None
