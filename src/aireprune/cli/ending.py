"""How `aire` ends: with a status, and when something is wrong with one sentence on standard error."""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from typer.core import TyperGroup

from aireprune.cli.messages import in_flags
from aireprune.cli.output import shown
from aireprune.errors import AireError
from aireprune.folders import cache_folder

PROBLEM, UNFORESEEN, INTERRUPTED = 1, 70, 130


class Ended(Exception):
    """What ended a command, carried past Typer."""

    def __init__(self, problem: BaseException):
        super().__init__(problem)
        self.problem = problem


class Commands(TyperGroup):
    """The group of all commands; what Typer would end by itself ("Aborted.", or without a word) reaches `stop`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command may have two words: `aire sweep merge` beside `aire sweep`."""
        command = self.commands.get(" ".join(args[:2]))
        return super().resolve_command(ctx, args) if command is None else (command.name, command, args[2:])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, KeyboardInterrupt, OSError) as problem:
            raise Ended(problem) from problem


class _Notes(logging.Handler):
    """What the library logs (a killed run that was completed, say), as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"note: {shown(record.getMessage())}", file=sys.stderr)


@contextmanager
def resumable(how: str = "the same command goes on where it stopped") -> Iterator[None]:
    """Work that is kept: Ctrl-C says how to go on with it."""
    try:
        yield
    except KeyboardInterrupt as problem:
        raise KeyboardInterrupt(f"interrupted; {how}.") from problem


def show_what_is_logged() -> None:
    log = logging.getLogger("aireprune")
    if not any(isinstance(handler, _Notes) for handler in log.handlers):
        log.addHandler(_Notes(logging.WARNING))


def replace_what_cannot_be_shown() -> None:
    """A terminal that has ASCII alone gets ? in place of other characters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def stop(problem: BaseException) -> NoReturn:
    """Say what is wrong, and exit with the status that says it to other programs."""
    if isinstance(problem, BrokenPipeError):  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(PROBLEM)
    if isinstance(problem, KeyboardInterrupt):
        _say(str(problem) or "interrupted", INTERRUPTED)
    if isinstance(problem, AireError):
        _say(in_flags(str(problem)), PROBLEM)
    if isinstance(problem, OSError):
        _say(f"{problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}", PROBLEM)
    if isinstance(problem, MemoryError):
        _say(f"There is not enough memory for this{f' ({problem})' if str(problem) else ''}.", PROBLEM)
    story = "".join(traceback.format_exception(problem))
    if os.environ.get("AIRE_DEBUG"):
        print(story, file=sys.stderr, end="")
    kind = f"{type(problem).__name__}: {problem}"[:200]
    _say(f"This should not have happened ({kind}). Please report it with {_log(story)}", UNFORESEEN)


def _say(message: str, status: int) -> NoReturn:
    print(f"aire: {shown(message)}", file=sys.stderr)
    sys.exit(status)


def _log(story: str) -> str:
    """Keep the traceback; says where it is, in the words that end the sentence."""
    name = f"aire-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    text = f"{' '.join(map(ascii, sys.argv))}\n{sys.version} on {sys.platform}\n\n{story}"
    for folder in (cache_folder() / "logs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return f"the file {folder / name}."
    return "what `aire -v` prints."
