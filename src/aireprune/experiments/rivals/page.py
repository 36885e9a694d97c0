"""The page about rivals, from the data that `run` left: their published figures in italics, ours with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from aireprune.experiments.cells import Key, Result, read_cells
from aireprune.experiments.paper.markdown import command, kept_reading, table
from aireprune.experiments.request import FULL
from aireprune.experiments.rivals.comparisons import Comparison, Way
from aireprune.experiments.rivals.published import Rival
from aireprune.experiments.rivals.run import Effort, Facts, folder_of
from aireprune.experiments.statistics import interval, student_interval
from aireprune.files.writing.atomic import atomic_path

UNITS = {"s5": "conjugate pairs", "lru": "complex states"}
CHOSEN = " ★"
ABOUT = """The data is in `docs/results/rivals`. Rows in italics are **published** figures, as their papers print them, of
their models: they were not run here. All other rows are measured here, in per cent of test digits, with 95 % intervals over
these or, where there are several models, over models. The shares are the rivals'. ★ marks the way that is best on validation
digits: nothing was chosen on test digits. Calibration and recovery see unlabelled training digits only."""


@dataclass(frozen=True)
class Judged:
    """One model of a comparison, and how it did."""

    facts: Facts
    cells: Mapping[Key, Result]

    @property
    def full(self) -> Result:
        return self.cells[FULL.key]

    def result(self, way: Way, share: float) -> Result:
        return self.cells[Key(way.name, share, 0)]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A comparison that was made, of one model or of several that differ in their seed, and what is shown of it."""

    comparison: Comparison
    ways: tuple[Way, ...]
    models: tuple[Judged, ...]

    @classmethod
    def load(cls, comparison: Comparison, data: Path, count: int, effort: Effort) -> Made:
        """count: of models, whose folders are below `data`."""
        folders = [folder_of(data, comparison, number) for number in range(count)]
        return cls(
            comparison=comparison,
            ways=comparison.ways(effort.recover_steps),
            models=tuple(
                Judged(Facts.load(folder / "comparison.json"), read_cells(folder / "cells.jsonl")) for folder in folders
            ),
        )

    @property
    def facts(self) -> Facts:
        """Of the first model."""
        return self.models[0].facts

    @property
    def full(self) -> list[Result]:
        return [model.full for model in self.models]

    def results(self, way: Way, share: float) -> list[Result]:
        return [model.result(way, share) for model in self.models]

    def best(self, share: float) -> Way:
        """By validation examples alone; of equals, the one that asks for least."""
        return max(self.ways, key=lambda way: fmean(found.validation for found in self.results(way, share)))


def render(data: Path, page: Path, found: Iterable[tuple[Comparison, Sequence[str]]], effort: Effort) -> Path:
    """Write the page from the folders of the comparisons below `data`. What stands between the marks of the reading is
    kept."""
    made = [Made.load(comparison, data, len(paths), effort) for comparison, paths in found]
    parts = [_head(made, effort), kept_reading(page), _differences(made), *map(_section, made)]
    with atomic_path(page) as temporary:
        temporary.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    return page


def _head(made: Iterable[Made], effort: Effort) -> str:
    names = ",".join(one.comparison.name for one in made)
    options = {"models": names, "examples": effort.examples, "recover-steps": effort.recover_steps}
    return f"# Rivals\n\nMade by `{command('aire reproduce rivals -o docs', options)}`.\n{ABOUT}"


def _section(made: Made) -> str:
    comparison, rival = made.comparison, made.comparison.rival
    published = [[f"*published, {name}*", *(f"*{value:.2f}*" for value in row)] for name, row in rival.rows.items()]
    ours = [[way.name, *(_cell(made, way, share) for share in comparison.shares.values())] for way in made.ways]
    return "\n\n".join(
        (
            f"## {rival.title}: {comparison.title}",
            f"*Theirs*: {rival.setting} ({rival.citation}).",
            f"*Ours*: {_model(made)}",
            table(("", *comparison.shares), [*published, *ours]),
            _commands(made),
        )
    )


def _model(made: Made) -> str:
    facts, rival = made.facts, made.comparison.rival
    told = (
        f"`{facts.model}`, {_sizes(facts)}, {facts.features} features; the full model has {_accuracy(made, made.full)}."
    )
    if len(made.models) > 1:
        others = " and ".join(f"`{model.facts.model}`" for model in made.models[1:])
        told += f" With {others} it is one of {len(made.models)} that differ in their seed: means and intervals over models."
    if rival.sizes and rival.sizes != facts.sizes:
        told += f" **Not their size**: theirs has {len(rival.sizes)} layers of {rival.sizes[0]} pairs."
    return told


def _sizes(facts: Facts) -> str:
    unit = UNITS.get(facts.family, "states")
    same = len(set(facts.sizes)) == 1
    return f"{len(facts.sizes)} layers of {facts.sizes[0] if same else ', '.join(map(str, facts.sizes))} {unit}"


def _cell(made: Made, way: Way, share: float) -> str:
    return _accuracy(made, made.results(way, share)) + (CHOSEN if made.best(share) is way else "")


def _accuracy(made: Made, results: Sequence[Result]) -> str:
    """Of one model with an interval over examples; of several the mean, with an interval over models."""
    values = np.array([result.test for result in results])
    low, high = interval(results[0].per_example(made.facts.tested)) if len(results) == 1 else student_interval(values)
    return f"{100 * values.mean():.2f} [{100 * low:.2f}, {100 * min(high, 1.0):.2f}]"


def _commands(made: Made) -> str:
    """How each row is made, with the smallest share as an example."""
    share = next(iter(made.comparison.shares.values()))
    lines = [f"- {way.name}: `{found}`" for way in made.ways if (found := way.command(made.facts.model, share))]
    alone = [way.name for way in made.ways if way.measured_alone]
    lines += [f"- {name}: made by this page's command alone, since readouts are otherwise fitted too" for name in alone]
    return f"On {made.facts.tested:,} test digits. In single commands, which judge on all 10,000:\n\n" + "\n".join(
        lines
    )


def _differences(made: Iterable[Made]) -> str:
    """Ours, as chosen on validation, minus what was published."""
    lines = [
        f"- `{one.facts.model}` beside {one.comparison.rival.title}, *{name}*: {_points(one, row)}."
        for one in made
        for name, row in one.comparison.rival.rows.items()
    ]
    if not lines:
        return ""
    return (
        "## Ours minus published\n\nThe way marked ★ minus the published accuracy, in points. Where theirs is known without "
        "any reduction, both are counted from their own full models, so a positive number says that ours lost less. The "
        "models differ: read the order of magnitude.\n\n" + "\n".join(lines)
    )


def _points(made: Made, row: tuple[float, ...]) -> str:
    offset = _offset(made, made.comparison.rival)
    found = []
    for (head, share), theirs in zip(made.comparison.shares.items(), row, strict=True):
        ours = 100 * fmean(found.test for found in made.results(made.best(share), share))
        found.append(f"{ours - theirs - offset:+.2f} with {head}")
    return ", ".join(found)


def _offset(made: Made, rival: Rival) -> float:
    """How far our full model is above theirs, where that is known."""
    return 0.0 if rival.full is None else 100 * fmean(found.test for found in made.full) - rival.full
