"""aire zoo: the trained models that come with the package."""

from __future__ import annotations

from dataclasses import asdict

from aireprune.cli.options import Json
from aireprune.cli.output import measured, next_step, print_json, say, size, table


def zoo(json: Json = False) -> None:
    """The trained models that come with the package; zoo:NAME stands for one wherever a checkpoint is taken."""
    from aireprune.zoo import catalogue

    models = catalogue()
    if json:
        print_json({"models": [asdict(model) for model in models]})
        return
    rows = (
        (model.name, model.family, model.task, measured(model.metric, model.test), size(model.bytes))
        for model in models
    )
    say(table("", ("model", "family", "task", "test", "weights"), rows, left=4))
    say()
    next_step("aire prune zoo:smnist-s5 -o smaller --ratio 0.6 --task digits")
