"""The command `aire`: one module per command, with its arguments and what it does.

The modules are imported whenever `aire` starts, so nothing in them imports NumPy, torch or rich before a command runs.
"""

from __future__ import annotations

import sys

import typer

from aireprune.cli import (
    bench,
    certify,
    demo,
    inspect,
    methods,
    prune,
    reproduce,
    score,
    sweep,
    tasks,
    train,
)
from aireprune.cli.messages import in_flags
from aireprune.errors import AireError

COMMANDS = (
    inspect.inspect,
    score.score,
    methods.methods,
    tasks.tasks,
    prune.prune,
    certify.certify,
    demo.demo,
    train.train,
    sweep.sweep,
    reproduce.reproduce,
)

app = typer.Typer(
    name="aire",
    help="Find the states a trained state space model does not need, take them out, and show what that changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Entry point: user errors become one sentence on standard error and exit status 1."""
    try:
        app()
    except AireError as problem:
        _stop(in_flags(str(problem)))
    except OSError as problem:
        _stop(f"{problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}")
    except KeyboardInterrupt:
        _stop("interrupted", 130)


def _stop(message: str, status: int = 1) -> None:
    print(f"aire: {message}", file=sys.stderr)
    sys.exit(status)
