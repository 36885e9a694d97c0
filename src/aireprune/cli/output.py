"""Tables for people, JSON for machines, notices and progress on standard error."""

from __future__ import annotations

import json as jsonlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from aireprune.cli.messages import in_flags

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Step = Callable[[str, int, int], None]  # (what is done, how many are done, of how many)
EVERY = 60.0  # seconds between lines of progress
WIDE = 200  # columns where the output is not a terminal, so that nothing is cut for a file or a pipe


@cache
def console() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)


@cache
def stderr() -> Console:
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)


def shown(text: str, keep: str = "") -> str:
    """Text for a terminal: characters that are not printable (control characters, direction marks) are escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else ascii(one)[1:-1] for one in text)


def say(*what: RenderableType) -> None:
    """Print lines or tables on standard output; long lines are left to the terminal to wrap."""
    for one in what or ("",):
        console().print(shown(one, keep="\n") if isinstance(one, str) else one, soft_wrap=isinstance(one, str))


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
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    body = Table(header_style="bold", box=None, pad_edge=False)
    names = list(columns)
    cells = [[shown(str(cell)) for cell in row] for row in rows]
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
    return Group(Text(shown(title), style="bold"), body) if title else body


def notices(lines: Iterable[str]) -> None:
    """What a user should know, on standard error."""
    for line in lines:
        stderr().print(f"note: {shown(in_flags(line))}", soft_wrap=True)


def waiting(what: str) -> AbstractContextManager[Any]:
    """A sign of life on standard error while something is done."""
    from rich.text import Text

    return stderr().status(Text(shown(what)))


class Milestones:
    """Progress as lines of text, at most one every EVERY seconds: what was done last, and how much time is left."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()
        self._first: int | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self._first is None or done < self._first:
            self._first, self._began = done, now
        if now - self._said < EVERY or done == self._first:
            return
        self._said = now
        left = (now - self._began) / (done - self._first) * (total - done)
        progress_line(f"{what}: {done} of {total}, about {duration(left)} left")


def duration(seconds: float) -> str:
    """As people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress(what: str, transient: bool = True, disable: bool = False) -> Iterator[Step]:
    """A bar on standard error; the function moves it. transient: it disappears in the end.

    Where standard error is no terminal (the log of a batch job), a line now and then says how far the work is.
    """
    if not stderr().is_terminal:
        yield (lambda what, done, total: None) if disable else Milestones()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=transient, disable=disable) as bar:
        job = bar.add_task(what)

        def step(what: str, done: int, total: int) -> None:
            bar.update(job, description=shown(what), completed=done, total=total)

        yield step


def progress_line(line: str) -> None:
    """A step of long work that is done."""
    stderr().print(shown(line), soft_wrap=True)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def measured(metric: str, value: float) -> str:
    """A task's metric as people read it: accuracy in per cent, or bits per byte."""
    return f"{metric} {percent(value, 2)}" if metric == "accuracy" else f"{value:.3f} {metric}"


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
