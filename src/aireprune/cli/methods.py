"""aire methods: the pruning methods and the reductions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aireprune.cli.messages import in_flags
from aireprune.cli.options import Json
from aireprune.cli.output import next_step, print_json, say, table

if TYPE_CHECKING:
    from aireprune.method.methods import Method


def methods(json: Json = False) -> None:
    """The pruning methods and what they are made of."""
    from aireprune.method.methods import METHODS
    from aireprune.method.reductions import REDUCTIONS

    if json:
        print_json({"methods": [described(method) for method in METHODS.values()]})
        return
    ranked = ((method.name, in_flags(method.summary)) for method in METHODS.values())
    say(table("", ("method", "what states are ranked by"), ranked, left=2))
    say()
    reductions = ((one.name, in_flags(one.summary)) for one in REDUCTIONS.values())
    say(table("", ("reduction", "what becomes of the states that stay"), reductions, left=2))
    say()
    next_step(
        "aire prune CKPT -o OUT --ratio 0.5, which chooses for you", "aire sweep CKPT --task TASK -o DIR compares"
    )


def described(method: Method) -> dict[str, Any]:
    """A method as JSON has it."""
    return {**asdict(method), "summary": in_flags(method.summary)}
