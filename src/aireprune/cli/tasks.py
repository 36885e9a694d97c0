"""aire tasks: what models can be trained and judged on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from aireprune.cli.options import Json
from aireprune.cli.output import next_step, print_json, say, table


def tasks(json: Json = False) -> None:
    """The tasks to train and judge models on, and whether their data is here."""
    from aireprune.folders import data_folder
    from aireprune.tasks.catalogue import catalogue

    listed = catalogue()
    if json:
        print_json({"data": str(data_folder()), "tasks": [asdict(task) for task in listed]})
        return
    say(f"data folder (AIRE_DATA): {data_folder()}")
    rows = ((task.name, _source(task.data), task.what) for task in listed)
    say(table("", ("task", "data", "what it is"), rows, left=3))
    say()
    next_step("aire eval CKPT --task NAME", "aire train NAME -o DIR")


def _source(data: str | None) -> str:
    return "missing" if data is None else data if data in ("generated", "embedded") else Path(data).name
