"""Options that several commands of `aire bench` have."""

from __future__ import annotations

from typing import Annotated

import typer

from aireprune.errors import AireError

Suite = Annotated[str, typer.Option("--suite", metavar="lra", help="The six Long Range Arena sizes of the paper.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", metavar="NAME", help="Only this size; may be repeated.")]
OtherRounds = Annotated[int, typer.Option("--other-repeats", min=1, help="Rounds against s5-pytorch, which is slow.")]
Rounds = Annotated[int, typer.Option("--repeats", min=1, help="Rounds in which everything compared takes turns.")]


def check_suite(suite: str) -> None:
    """Raise unless there is a suite of that name."""
    if suite != "lra":
        raise AireError(f"There is no suite {suite!r}; there is lra.")
