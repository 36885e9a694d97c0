"""Pieces of the page: tables in Markdown, and cells with what is measured in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from aireprune.experiments.statistics import paired_p_value
from aireprune.experiments.summary import Full, Point, Summary

SIGNIFICANT = 0.01
BEGIN, END = "<!-- reading -->", "<!-- end of reading -->"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """The first column to the left, the others to the right."""
    heads = list(heads)
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def command(words: str, options: Mapping[str, object]) -> str:
    """What a person types: aire train image, and the options as flags; one that is True has no value."""
    return " ".join(
        [words, *(f"--{name}" if value is True else f"--{name} {value}" for name, value in options.items())]
    )


def with_interval(summary: Summary, point: Full | Point) -> str:
    """The test metric and its interval: 56.2 [53.1, 59.2]."""
    low, high = (summary.text(bound) for bound in point.interval)
    return f"{summary.text(point.test)} [{low}, {high}]"


def mark(summary: Summary, mine: np.ndarray, base: np.ndarray) -> str:
    """▲ or ▽ where the metric of the same examples is significantly better or worse than the base's."""
    if paired_p_value(mine, base) >= SIGNIFICANT:
        return ""
    return " ▲" if (mine.mean() > base.mean()) == summary.accuracy else " ▽"


def kept_reading(page: Path) -> str:
    """What a person wrote between the marks of an existing page, as it is; empty marks on a new page."""
    old = page.read_text(errors="replace") if page.is_file() else ""
    inside = old.partition(BEGIN)[2].partition(END)[0].strip() if END in old.partition(BEGIN)[2] else ""
    return f"{BEGIN}\n{inside}\n{END}"
