"""What `aire prune` does with --task: find the ratio that --max-drop allows, and report the test accuracy once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aireprune.api import load
from aireprune.cli.output import console, measured, stderr
from aireprune.errors import AireError
from aireprune.pruning.search import search_ratio
from aireprune.tasks import load_task
from aireprune.tasks.evaluate import evaluate


def find_ratio(source: Path, config: Path | None, task: str | None, max_drop: float, **options: Any) -> dict[str, Any]:
    """The largest ratio within the bound, chosen on validation data."""
    if task is None or options.pop("ratio") is not None or options.pop("threshold") is not None:
        raise AireError("--max-drop finds the ratio by itself: give it with --task, without --ratio and --threshold.")

    loaded = load_task(task)

    def report(ratio: float, metric: float) -> None:
        stderr.print(f"ratio {ratio:.2f}: validation {measured(loaded.metric, metric)}")

    found = search_ratio(load(source, config), loaded, max_drop, report=report, **options)
    return {
        "metric": loaded.metric,
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
        "metric": loaded.metric,
        "test": evaluate(load(target, None if beside else config), loaded, loaded.test),
        "examples": len(loaded.test),
    }


def show(judged: dict[str, Any]) -> None:
    if "validation" in judged:
        console.print(
            f"Validation: full {measured(judged['metric'], judged['full_validation'])}, at ratio {judged['ratio']:.2f} "
            f"{measured(judged['metric'], judged['validation'])} ({len(judged['tried'])} ratios tried)."
        )
    if "test" in judged:
        console.print(f"Test on {judged['examples']} examples: {measured(judged['metric'], judged['test'])}.")
