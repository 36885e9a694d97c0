"""What `aire prune` does with --task: find the ratio that --max-drop allows, and report the test metric once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aireprune.cli.output import measured, say, stderr

if TYPE_CHECKING:
    from aireprune.pruning.request import Job
    from aireprune.pruning.search import RatioFound
    from aireprune.pruning.source import FileSource
    from aireprune.tasks import Task


@dataclass
class Judgement:
    """What a task says about pruning a checkpoint: on validation examples, to choose a ratio; on test examples, once."""

    task: Task
    source: FileSource
    found: RatioFound | None = field(default=None, init=False)
    test: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """A task that does not fit the model is refused before anything is written."""
        from aireprune.tasks.evaluate import evaluate

        self.full = self.source.build()
        evaluate(self.full, self.task, self.task.test.rows(slice(0, 1)))

    def find_ratio(self, job: Job, max_drop: float, target: Path) -> float:
        """The largest ratio at which what will be written at `target` costs at most `max_drop` points."""
        from aireprune.pruning.rows import with_short_rows
        from aireprune.pruning.search import Goal, search_ratio
        from aireprune.pruning.source import open_module

        module = open_module(self.full, units=job.units, origin=self.source.origin)
        goal = Goal(task=self.task, max_drop=max_drop)
        self.found = search_ratio(module, with_short_rows(job, self.source, target), goal, self._report)
        return self.found.ratio

    def _report(self, ratio: float, metric: float) -> None:
        stderr().print(f"ratio {ratio:.2f}: validation {self._measured(metric)}")

    def judge(self, target: Path) -> None:
        """The metric of the checkpoint that was written, on the test split."""
        from aireprune.pruning.source import open_file
        from aireprune.tasks.evaluate import evaluate

        beside = target.is_dir() or target.with_suffix(".json").exists()
        written = open_file(target, None if beside else self.source.config)
        self.test = evaluate(written.build(), self.task, self.task.test)

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
