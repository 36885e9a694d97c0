"""What `aire prune` does with --task: find the ratio that --max-drop allows, and report the test metric once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aireprune.cli.output import measured, say, stderr

if TYPE_CHECKING:
    from aireprune.pruning.search import Found
    from aireprune.tasks import Task


@dataclass
class Judgement:
    """What a task says about pruning a checkpoint: on validation examples, to choose a ratio; on test examples, once."""

    task: Task
    found: Found | None = field(default=None, init=False)
    test: float | None = field(default=None, init=False)

    def find_ratio(self, source: Path, config: Path | None, max_drop: float, options: dict[str, Any]) -> float:
        """The largest ratio that costs at most `max_drop` points. options: those of `aireprune.prune`."""
        from aireprune.api import load
        from aireprune.pruning.search import search_ratio

        self.found = search_ratio(load(source, config), self.task, max_drop, report=self._report, **options)
        return self.found.ratio

    def _report(self, ratio: float, metric: float) -> None:
        stderr().print(f"ratio {ratio:.2f}: validation {self._measured(metric)}")

    def judge(self, target: Path, config: Path | None) -> None:
        """The metric of the checkpoint that was written, on the test split."""
        from aireprune.api import load
        from aireprune.tasks.evaluate import evaluate

        beside = target.is_dir() or target.with_suffix(".json").exists()
        self.test = evaluate(load(target, None if beside else config), self.task, self.task.test)

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {"metric": self.task.metric}
        if self.found is not None:
            values |= {
                "ratio": self.found.ratio,
                "full_validation": self.found.full,
                "validation": self.found.metric,
                "tried": {str(ratio): metric for ratio, metric in self.found.tried.items()},
            }
        return {**values, "test": self.test, "examples": len(self.task.test)}

    def show(self) -> None:
        if self.found is not None:
            say(
                f"Validation: full {self._measured(self.found.full)}, at ratio {self.found.ratio:.2f} "
                f"{self._measured(self.found.metric)} ({len(self.found.tried)} ratios tried)."
            )
        assert self.test is not None
        say(f"Test on {len(self.task.test)} examples: {self._measured(self.test)}.")

    def _measured(self, value: float) -> str:
        return measured(self.task.metric, value)
