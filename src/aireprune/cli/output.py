"""Tables for people, JSON for machines, notices on standard error."""

from __future__ import annotations

import json as jsonlib
import math
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

WIDE = 200  # columns where the output is not a terminal, so that nothing is cut for a file or a pipe
console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)
stderr = Console(stderr=True, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output; numbers that JSON does not have become null."""
    print(jsonlib.dumps(_plain(value), indent=1))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], left: int = 1) -> RenderableType:
    """A plain table under a title; the first `left` columns are aligned to the left, the rest to the right."""
    body = Table(header_style="bold", box=None, pad_edge=False)
    names = list(columns)
    cells = [[str(cell) for cell in row] for row in rows]
    for number, column in enumerate(names):
        flexible = number == 0 or number == len(names) - 1 < left  # names and prose may take several lines, numbers not
        width = max(len(text) for text in (column, *(row[number] for row in cells)))
        body.add_column(
            column,
            justify="left" if number < left else "right",
            no_wrap=not flexible,
            overflow="fold",
            min_width=None if flexible else width,
        )
    for row in cells:
        body.add_row(*row)
    return Group(Text(title, style="bold"), body) if title else body


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def notices(lines: Iterable[str]) -> None:
    for line in lines:
        stderr.print(f"note: {line}")


def measured(metric: str, value: float) -> str:
    """A task's metric as people read it: accuracy in per cent, or bits per byte."""
    return f"{metric} {percent(value, 2)}" if metric == "accuracy" else f"{value:.3f} {metric}"
