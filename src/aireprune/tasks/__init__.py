"""Tasks by name. NAME has the paper's format and splits, NAME-mini is small enough to train on two CPU cores."""

from __future__ import annotations

from collections.abc import Callable

from aireprune.errors import AireError
from aireprune.tasks.base import Batch, Split, Task, data_folder
from aireprune.tasks.images import image, scifar_rgb, smnist
from aireprune.tasks.language import lm, lm_mini
from aireprune.tasks.listops import listops, listops_mini
from aireprune.tasks.pathfinder import pathfinder, pathfinder_mini, pathx
from aireprune.tasks.retrieval import retrieval, retrieval_mini
from aireprune.tasks.speech import speech, speech_8k, speech_mini
from aireprune.tasks.text import text, text_mini

TASKS: dict[str, Callable[[], Task]] = {
    "listops": listops,
    "listops-mini": listops_mini,
    "text": text,
    "text-mini": text_mini,
    "retrieval": retrieval,
    "retrieval-mini": retrieval_mini,
    "image": image,
    "pathfinder": pathfinder,
    "pathfinder-mini": pathfinder_mini,
    "pathx": pathx,
    "speech": speech,
    "speech-8k": speech_8k,
    "speech-mini": speech_mini,
    "smnist": smnist,
    "lm": lm,
    "lm-mini": lm_mini,
    "scifar_rgb": scifar_rgb,
}


def load_task(name: str) -> Task:
    if name not in TASKS:
        raise AireError(f"There is no task {name!r}. Tasks: {', '.join(TASKS)}.")
    return TASKS[name]()


__all__ = ["TASKS", "Batch", "Split", "Task", "data_folder", "load_task"]
