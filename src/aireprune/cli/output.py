"""Tables for people, JSON for machines, notices and progress on standard error."""

from __future__ import annotations

import json as jsonlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from aireprune.cli.messages import in_flags

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Step = Callable[[str, int, int], None]  # (what is done, how many are done, of how many)
WIDE = 200  # columns where the output is not a terminal, so that nothing is cut for a file or a pipe
FOLDED, GAP, BAR = 24, 2, 12  # columns: of a first column that is folded, between columns, of a bar
EVERY = 30.0  # seconds between two lines of progress where there is no terminal
SOON = 50  # the time left is guessed once a fiftieth of the work is done
QUIET = "AIRE_QUIET"
SCHEMA = 1  # version of what --json prints: grows when a key is renamed, removed or changes its meaning


def is_quiet() -> bool:
    """aire -q: results alone, without notes, progress and hints."""
    return bool(os.environ.get(QUIET))


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


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output (docs/schema.json); numbers that JSON does not have become null."""
    print(jsonlib.dumps({"schema": SCHEMA, **_plain(dict(document))}, indent=1))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], left: int = 1) -> RenderableType:
    """A plain table under a title; the first `left` columns are aligned to the left, the rest to the right.

    On a terminal that is too narrow for its numbers it goes on below, with the first column repeated.
    """
    from rich.console import Group
    from rich.text import Text

    names = list(columns)
    cells = [[shown(str(cell)) for cell in row] for row in rows]
    widths = [max(len(text) for text in (name, *(row[number] for row in cells))) for number, name in enumerate(names)]
    parts: list[RenderableType] = [Text(shown(title), style="bold")] if title else []
    for chosen in fitting(widths, left, console().width):
        if parts[bool(title) :]:
            parts.append(Text())
        parts.append(_grid([names[n] for n in chosen], [[row[n] for n in chosen] for row in cells], left))
    return Group(*parts)


def fitting(widths: list[int], left: int, room: int) -> list[list[int]]:
    """The columns of a table in blocks that fit side by side; each begins with the first column."""
    if len(widths) <= left:  # prose, which is folded
        return [list(range(len(widths)))]
    first = min(widths[0], FOLDED)
    blocks, used = [[0]], first
    for number, width in enumerate(widths[1:], 1):
        if used + GAP + width > room and len(blocks[-1]) > 1:
            blocks.append([0])
            used = first
        blocks[-1].append(number)
        used += GAP + width
    return blocks


def _grid(names: list[str], cells: list[list[str]], left: int) -> RenderableType:
    from rich.table import Table

    body = Table(header_style="bold", box=None, pad_edge=False)
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
    return body


def bar(share: float, width: int = BAR) -> str:
    """A share of one as a bar, in characters that the output can show."""
    full = max(round(width * min(share, 1.0)), share > 0)  # a little is not nothing
    encoding = (sys.stdout.encoding or "ascii").lower()
    dark, light = ("█", "░") if encoding.startswith("utf") else ("#", ".")
    return dark * full + light * (width - full)


def notices(lines: Iterable[str]) -> None:
    """What a user should know, on standard error."""
    for line in () if is_quiet() else lines:
        stderr().print(f"note: {shown(in_flags(line))}", soft_wrap=True)


def waiting(what: str) -> AbstractContextManager[Any]:
    """A sign of life on standard error while something is done."""
    from rich.text import Text

    return nullcontext() if is_quiet() else stderr().status(Text(shown(what)))


@contextmanager
def progress(what: str, transient: bool = True, disable: bool = False) -> Iterator[Step]:
    """A bar on standard error, or a line every so often where that is not a terminal; the function moves it.

    transient: it disappears in the end.
    """
    if disable or is_quiet():
        yield lambda what, done, total: None
        return
    if not stderr().is_terminal:
        yield Lines(lambda done, total: f"{done:,} of {total:,}", resumes=True)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=transient) as bar:
        job = bar.add_task(what)

        def step(what: str, done: int, total: int) -> None:
            bar.update(job, description=shown(what), completed=done, total=total)

        yield step


@contextmanager
def writing(what: str, total: int) -> Iterator[None]:
    """While a checkpoint is copied: bytes written of about `total`, and the time left; a sign of life before that."""
    from aireprune.files.writing.watching import watched

    if is_quiet():
        yield
        return
    if not stderr().is_terminal:
        lines, written = Lines(lambda done, total: f"{size(done)} of about {size(total)}"), [0]

        def tell(count: int) -> None:
            written[0] += count
            lines(what, written[0], total)

        with watched(tell):
            yield
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    shape = (SpinnerColumn(), text, BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*shape, console=stderr(), transient=True) as bar:
        job = bar.add_task(shown(what), total=total)
        with watched(lambda count: bar.advance(job, count)):
            yield


class Lines:
    """Progress where there is no terminal: a line now and then, with the time left."""

    def __init__(self, text: Callable[[int, int], str], every: float = EVERY, resumes: bool = False):
        """resumes: the first step that is told of may be any, and nothing is known of those before."""
        self.text, self.every = text, every
        self.began = self.told = time.monotonic()
        self.before = None if resumes else 0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self.before is None or done < self.before:
            self.before = done - 1
        if now - self.told < self.every:
            return
        self.told, fresh = now, done - self.before
        left = (
            f", about {duration((now - self.began) / fresh * (total - done))} left"
            if total <= SOON * fresh and done < total
            else ""
        )
        progress_line(f"{what}: {self.text(done, total)}{left}")


def duration(seconds: float) -> str:
    """Time as people read it."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def progress_line(line: str) -> None:
    """A step of long work that is done."""
    if not is_quiet():
        stderr().print(shown(line), soft_wrap=True)


def next_step(*lines: str) -> None:
    """What to type next, under the result."""
    from rich.text import Text

    if not is_quiet():
        for number, line in enumerate(lines):
            console().print(Text(f"{'Next: ' if not number else '      '}{shown(line)}", style="dim"), soft_wrap=True)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def measured(metric: str, value: float) -> str:
    """A task's metric as people read it: accuracy in per cent, or bits per byte."""
    return f"{metric} {percent(value, 2)}" if metric == "accuracy" else f"{value:.3f} {metric}"


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
