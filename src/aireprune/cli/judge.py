"""What a task or a text says about a model: the table of `aire eval`, and what `aire prune` does with --task and --text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aireprune.cli import completing
from aireprune.cli.output import measured, progress, progress_line, say, table

if TYPE_CHECKING:
    from aireprune.experiments.evaluation import Estimate, Evaluation
    from aireprune.pruning.outcome import Pruned
    from aireprune.pruning.request import Job
    from aireprune.pruning.search import RatioFound
    from aireprune.pruning.source import FileSource
    from aireprune.tasks.material import Material

TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="TASK",
        help="Judge on the test split of this task; `aire tasks` lists them, and an .npz file of your own will do.",
        autocompletion=completing.tasks,
    ),
]
TextFile = Annotated[
    Path | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help="Judge on this text: UTF-8, read with the tokenizer of a Hugging Face folder, else as bytes; or a .npy file of "
        "tokens.",
    ),
]


@dataclass
class Judgement:
    """The full model beside what is written in its place. A ratio is chosen on validation examples (of a text, on the
    first half of its windows), and the result is reported on test examples (on the second half)."""

    material: Material
    source: FileSource
    found: RatioFound | None = field(default=None, init=False)
    test: Evaluation | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """A task that does not fit the model is refused before anything is written."""
        from aireprune.pruning.settling import settled_by_task
        from aireprune.tasks.evaluate import evaluate

        self.material = self.material.loaded()
        self.source = settled_by_task(self.source, self.material.for_model)
        self.full = self.source.build()
        self.task = self.material.for_model(self.full)
        evaluate(self.full, self.task, self.task.test.rows(slice(0, 1)))

    def find_ratio(self, job: Job, max_drop: float, target: Path) -> float:
        """The largest ratio at which what will be written at `target` costs at most `max_drop` points of accuracy, or per
        cent of bits."""
        from aireprune.pruning.rows import with_short_rows
        from aireprune.pruning.search import Goal, search_ratio
        from aireprune.pruning.source import open_module
        from aireprune.tasks.material import halved

        if self.material.text is not None:
            self.task = halved(self.task)
        module = open_module(self.full, units=job.units, origin=self.source.origin)
        goal = Goal(task=self.task, max_drop=max_drop)
        self.found = search_ratio(module, with_short_rows(job, self.source, target), goal, self._report)
        return self.found.ratio

    def _report(self, ratio: float, metric: float) -> None:
        progress_line(f"ratio {ratio:.2f}: validation {measured(self.task.metric, metric)}")

    def judge(self, target: Path) -> None:
        """The checkpoint that was written beside the full model, on the test split."""
        from aireprune.experiments.evaluation import evaluate_model
        from aireprune.pruning.source import open_file

        beside = target.is_dir() or target.with_suffix(".json").exists()
        written = open_file(target, None if beside else self.source.config).build()
        with judging("both models") as report:
            self.test = evaluate_model(written, self.task, self.full, report=report)

    def note_in_card(self, done: Pruned, target: Path, mask: bool) -> None:
        """What was measured goes into the model card, if the checkpoint has one."""
        from aireprune.pruning.card import Judged
        from aireprune.pruning.companions import card_of, write_card

        assert self.test is not None
        heading, found = title(self.test, Path(self.test.data).name), self.test
        rows = (
            (name, " · ".join(_cells(name, full)), " · ".join(_cells(name, here))) for name, here, full in _rows(found)
        )
        judged = Judged(data=heading, rows=tuple(rows), remarks=tuple(beside(found, "the original")))
        card = card_of(self.source, done, target, mask, judged)
        if card is not None:
            write_card(target, card)

    def to_dict(self) -> dict[str, Any]:
        assert self.test is not None
        assert self.test.against is not None
        values: dict[str, Any] = {"name": self.task.metric}
        if self.found is not None:
            values |= {
                "ratio": self.found.ratio,
                "full_validation": self.found.full,
                "validation": self.found.metric,
                "tried": {str(ratio): metric for ratio, metric in self.found.tried.items()},
            }
        values |= {"full_test": self.test.against.full.metric.value, "test": self.test.score.metric.value}
        return {**values, "examples": self.test.examples, "evaluation": self.test.to_dict()}

    def show(self) -> None:
        assert self.test is not None
        if self.found is not None:
            metric = self.task.metric
            say(
                f"Validation: full {measured(metric, self.found.full)}, at ratio {self.found.ratio:.2f} "
                f"{measured(metric, self.found.metric)} ({len(self.found.tried)} ratios tried)."
            )
        say()
        show_evaluation(self.test, "pruned", "full")


def judgement_on(task: str | None, text: Path | None, source: FileSource) -> Judgement | None:
    """The judgement that --task or --text asks for."""
    if task is None and text is None:
        return None
    from aireprune.tasks.material import Material

    return Judgement(Material(task=task, text=text), source)


@contextmanager
def judging(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar, or lines; the function moves it: (examples done, of how many)."""
    title = f"judging {what}"
    with progress(title) as step:
        yield lambda done, total: step(title, done, total)


def show_evaluation(found: Evaluation, model: str, full: str) -> None:
    """A table of the scores; beside the full model, also how often both agree and how far their outputs are apart."""
    heading = title(found, found.data)
    if found.against is None:
        heads: tuple[str, ...] = ("", model, "95 % interval")
        say(table(heading, heads, ((name, *_cells(name, value)) for name, value, _ in _rows(found))))
        return
    heads = ("", full, "95 % interval", model, "95 % interval")
    rows = ((name, *_cells(name, other), *_cells(name, value)) for name, value, other in _rows(found))
    say(table(heading, heads, rows))
    say(*beside(found, full))


def title(found: Evaluation, data: str) -> str:
    """What was judged on."""
    steps = f"{found.length:,} tokens" if found.language else f"up to {found.length:,} steps"
    kind = "window" if found.language else "test example"
    return f"{data}: {found.examples:,} {kind}{'s' * (found.examples > 1)} of {steps}"


def beside(found: Evaluation, full: str) -> list[str]:
    """How a model differs from the full one, in sentences."""
    other, answers = found.against, "next tokens" if found.language else "answers"
    assert other is not None
    return [
        f"Difference in {found.metric}: {_text(found.metric, other.difference.value, signed=True)}"
        f"{'' if found.language else ' points'} ({_interval(found.metric, other.difference, signed=True)}; "
        f"p = {other.p:.2g}).",
        f"{_text('agreement', other.agreement.value)} of the {answers} are the same "
        f"({_interval('agreement', other.agreement)}); mean KL divergence from {full}: "
        f"{_text('nats', other.divergence.value)} nats ({_interval('nats', other.divergence)}).",
    ]


def _rows(found: Evaluation) -> list[tuple[str, Estimate, Estimate]]:
    """Name and value of every metric, and the full model's (or once more the same) value."""
    full = found.score if found.against is None else found.against.full
    rows = [(found.metric, found.score.metric, full.metric)]
    if found.score.perplexity is not None and full.perplexity is not None:
        rows.append(("perplexity", found.score.perplexity, full.perplexity))
    return rows


def _cells(metric: str, estimate: Estimate) -> tuple[str, str]:
    return _text(metric, estimate.value), _interval(metric, estimate)


def _interval(metric: str, estimate: Estimate, signed: bool = False) -> str:
    """Nothing can be said from one example."""
    if not math.isfinite(estimate.high):
        return "–"
    return f"{_text(metric, estimate.low, signed)} to {_text(metric, estimate.high, signed)}"


def _text(metric: str, value: float, signed: bool = False) -> str:
    sign = "+" if signed else ""
    if metric in ("accuracy", "agreement"):
        return f"{100 * value:{sign}.2f}{'' if signed else ' %'}"
    return f"{value:{sign},.{2 if metric == 'perplexity' else 4}f}"
