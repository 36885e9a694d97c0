"""Trained models that come with the package, by name: wherever a checkpoint's path is taken, zoo:listops-s5 will do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from aireprune.errors import AireError, did_you_mean

FOLDER = Path(__file__).parent
PREFIX = "zoo:"


@dataclass(frozen=True, kw_only=True)
class ListedModel:
    """A model as it is listed. task: what it was trained on; test: its metric there; bytes: of its weights."""

    name: str
    family: str
    task: str
    metric: str
    test: float
    bytes: int


def names() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob("*/config.json"))


def catalogue() -> list[ListedModel]:
    """Every model; no weights are read."""
    return [_listed(FOLDER / name) for name in names()]


def is_zoo_name(path: str | Path) -> bool:
    """Whether a path stands for a model that comes with the package; a file or folder of that name goes first."""
    return str(path).startswith(PREFIX) and not Path(path).exists()


def locate(path: str | Path) -> Path:
    """The path as it is, or for zoo:NAME the folder of that model."""
    if not is_zoo_name(path):
        return Path(path)
    name = str(path).removeprefix(PREFIX)
    if name not in names():
        hint = did_you_mean(f"{PREFIX}{name}", [PREFIX + one for one in names()])
        raise AireError(f"There is no model {PREFIX}{name}.{hint} Models: {', '.join(names())}.")
    return FOLDER / name


def shown(path: Path) -> str:
    """The path as a person would type it: zoo:NAME for the folder of a model that comes with the package."""
    return PREFIX + path.name if path.parent == FOLDER else str(path)


def _listed(folder: Path) -> ListedModel:
    config, training = (json.loads((folder / f"{name}.json").read_text()) for name in ("config", "training"))
    return ListedModel(
        name=PREFIX + folder.name,
        family=config["family"],
        task=training["task"],
        metric=training.get("metric", "accuracy"),
        test=training["test"],
        bytes=(folder / "model.safetensors").stat().st_size,
    )
