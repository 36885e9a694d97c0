"""Tasks by name. NAME has the paper's format and splits, NAME-mini is small enough to train on two CPU cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aireprune.errors import AireError, did_you_mean
from aireprune.tasks import digits, images, language, listops, pathfinder, retrieval, speech, text
from aireprune.tasks.base import Batch, Split, Task
from aireprune.tasks.own import own_task

TASKS: dict[str, Callable[[], Task]] = {
    "listops": listops.listops,
    "listops-mini": listops.listops_mini,
    "text": text.text,
    "text-mini": text.text_mini,
    "retrieval": retrieval.retrieval,
    "retrieval-mini": retrieval.retrieval_mini,
    "image": images.image,
    "pathfinder": pathfinder.pathfinder,
    "pathfinder-mini": pathfinder.pathfinder_mini,
    "pathx": pathfinder.pathx,
    "speech": speech.speech,
    "speech-8k": speech.speech_8k,
    "speech-mini": speech.speech_mini,
    "smnist": images.smnist,
    "digits": digits.digits,
    "lm": language.lm,
    "lm-mini": language.lm_mini,
    "scifar_rgb": images.scifar_rgb,
}


def load_task(name: str) -> Task:
    """A task by its name, or from an .npz file of one's own (`aireprune.tasks.own`)."""
    if name not in TASKS and name.endswith(".npz"):
        if not Path(name).is_file():
            raise AireError(f"There is no file {name}.")
        return own_task(Path(name))
    if name not in TASKS:
        hint = did_you_mean(name, TASKS)
        raise AireError(f"There is no task {name!r}.{hint} Tasks: {', '.join(TASKS)}, or an .npz file (docs/tasks.md).")
    return TASKS[name]()


__all__ = ["TASKS", "Batch", "Split", "Task", "load_task"]
