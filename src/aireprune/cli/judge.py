"""What `aire prune` does with --task: find the ratio that --max-drop allows, and report the test accuracy once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aireprune.api import load
from aireprune.cli.output import console, percent, stderr
from aireprune.errors import AireError
from aireprune.evaluate import accuracy
from aireprune.search import search_ratio
from aireprune.tasks import load_task


def find_ratio(source: Path, config: Path | None, task: str | None, max_drop: float, **options: Any) -> dict[str, Any]:
    """The largest ratio within the bound, chosen on validation data."""
    if task is None or options.pop("ratio") is not None or options.pop("threshold") is not None:
        raise AireError("--max-drop finds the ratio by itself: give it with --task, without --ratio and --threshold.")

    def report(ratio: float, metric: float) -> None:
        stderr.print(f"ratio {ratio:.2f}: validation accuracy {percent(metric, 2)}")

    found = search_ratio(load(source, config), load_task(task), max_drop, report=report, **options)
    return {
        "ratio": found.ratio,
        "full_validation": found.full,
        "validation": found.metric,
        "tried": {str(ratio): metric for ratio, metric in found.tried.items()},
    }


def judge(target: Path, config: Path | None, task: str) -> dict[str, Any]:
    """Accuracy of the checkpoint that was written, on the test split."""
    loaded = load_task(task)
    beside = target.is_dir() or target.with_suffix(".json").exists()
    return {
        "test": accuracy(load(target, None if beside else config), loaded, loaded.test),
        "examples": len(loaded.test),
    }


def show(judged: dict[str, Any]) -> None:
    if "validation" in judged:
        console.print(
            f"Validation accuracy: full {percent(judged['full_validation'], 2)}, at ratio {judged['ratio']:.2f} "
            f"{percent(judged['validation'], 2)} ({len(judged['tried'])} ratios tried)."
        )
    if "test" in judged:
        console.print(f"Test accuracy on {judged['examples']} examples: {percent(judged['test'], 2)}.")
