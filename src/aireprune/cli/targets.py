"""aire targets: the engines that a pruned model can be made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aireprune.cli.options import Json
from aireprune.cli.output import next_step, print_json, say, table

if TYPE_CHECKING:
    from aireprune.pruning.targets import Target


def targets(json: Json = False) -> None:
    """The engines of `aire prune --target`: what each of them loads, and the files that say so."""
    from aireprune.pruning.targets import TARGETS

    if json:
        print_json({"targets": [target.to_dict() for target in TARGETS.values()]})
        return
    rows = (
        (target.name, family, "one" if target.one_size else "one each", sizes.words, _on_gpu(target, family))
        for target in TARGETS.values()
        for family, sizes in target.families.items()
    )
    say(table("", ("target", "family", "size of layers", "states N", "and on some GPUs"), rows, left=5))
    say()
    for target in TARGETS.values():
        say(f"{target.name}: {target.summary}; made of {' or '.join(target.reads)}.")
        for source in target.sources:
            say(f"  {source}")
    say()
    next_step("aire prune CKPT -o OUT --ratio 0.5 --target mamba-ssm")


def _on_gpu(target: Target, family: str) -> str:
    sizes, where = target.on_gpu.get(family, ((), ""))
    listed = f"multiples of {sizes[0]}" if len(sizes) > 2 else " or ".join(map(str, sizes))
    return f"{listed} {where}" if sizes else ""
