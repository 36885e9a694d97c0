"""The command `aire`. Each command lives in a module of its own and is imported when it runs."""

from __future__ import annotations

import sys

import typer

from aireprune.errors import AireError

app = typer.Typer(
    name="aire",
    help="Find the states a trained state space model does not need, take them out, and show what that changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point: user errors become one sentence on standard error and exit status 1."""
    from aireprune.cli import bench_commands, commands  # noqa: F401  (registers the commands)

    try:
        app()
    except AireError as problem:
        print(f"aire: {problem}", file=sys.stderr)
        sys.exit(1)
    except OSError as problem:
        print(
            f"aire: {problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}", file=sys.stderr
        )
        sys.exit(1)
    except KeyboardInterrupt:
        print("aire: interrupted", file=sys.stderr)
        sys.exit(130)
