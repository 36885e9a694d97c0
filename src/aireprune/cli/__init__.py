"""The command `aire`: one module per command, with its arguments and what it does.

The modules are imported whenever `aire` starts, so nothing in them imports NumPy, torch or rich before a command runs.

Exit status: 0 done; 1 a problem with the input or the system (a sentence says which); 2 wrong usage; 70 an error that
nobody foresaw (the sentence names a log file with the traceback); 130 interrupted by Ctrl-C; 143 terminated.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from aireprune import __version__
from aireprune.cli import (
    bench,
    certify,
    convert,
    demo,
    eval,
    explore,
    export,
    inspect,
    merge,
    methods,
    prune,
    report,
    reproduce,
    score,
    sweep,
    targets,
    tasks,
    train,
    zoo,
)
from aireprune.cli.ending import Commands, Ended, replace_what_cannot_be_shown, show_what_is_logged, stop
from aireprune.cli.output import QUIET
from aireprune.files.signals import stopped_cleanly
from aireprune.memory import share_heap

COMMANDS = (
    inspect.inspect,
    score.score,
    methods.methods,
    targets.targets,
    tasks.tasks,
    zoo.zoo,
    prune.prune,
    eval.eval,
    certify.certify,
    convert.convert,
    export.export,
    report.report,
    explore.explore,
    demo.demo,
    train.train,
    sweep.sweep,
    merge.merge,
    reproduce.reproduce,
)

app = typer.Typer(
    name="aire",
    cls=Commands,
    help="Find the states a trained state space model does not need, take them out, and show what that changed.",
    epilog="Exit status: 0 done, 1 a problem with the input, 2 wrong usage, 70 an unforeseen error, 130 interrupted, "
    "143 terminated.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command("sweep merge" if command is merge.merge else None)(command)
app.add_typer(bench.app, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"aire {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Results alone: no notes, no progress, no hints (AIRE_QUIET=1).")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the traceback of an error that nobody foresaw (AIRE_DEBUG=1).")
    ] = False,
) -> None:
    if verbose:
        os.environ["AIRE_DEBUG"] = "1"
    if quiet:
        os.environ[QUIET] = "1"


def main() -> None:
    """Entry point: whatever goes wrong becomes one sentence on standard error and an exit status."""
    replace_what_cannot_be_shown()
    show_what_is_logged()
    share_heap()
    try:
        with stopped_cleanly():
            app(prog_name="aire")
    except SystemExit:
        _flush()
        raise
    except Ended as ended:
        stop(ended.problem)
    except (KeyboardInterrupt, Exception) as problem:
        stop(problem)


def _flush() -> None:
    """Here rather than when Python ends, which would complain about a pipe that was closed."""
    try:
        sys.stdout.flush()
    except OSError as problem:
        stop(problem)
