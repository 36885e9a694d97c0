"""aire bench serve: a prompt and decoding on a CPU, beside transformers and llama.cpp."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aireprune.cli.bench.cells import milliseconds, spread
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Json
from aireprune.cli.output import print_json, say, table, waiting
from aireprune.errors import AireError


def serve(
    family: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="mamba or mamba2; may be repeated. By default both.")
    ] = None,
    length: Annotated[int, typer.Option(min=1, max=1000, help="Tokens of the prompt.")] = 512,
    layers: Annotated[int, typer.Option(min=1, help="Layers; the 130M models have 24.")] = 24,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """Prompt and decoding of 130M-shaped models, dense and pruned: transformers, `accelerate`, `generate`, llama.cpp."""
    from aireprune.bench.serve import FAMILIES, ServeSize, bench_serve

    wanted = tuple(family or FAMILIES)
    for name in wanted:
        if name not in FAMILIES:
            raise AireError(f"There is no family {name!r} to measure; there are {', '.join(FAMILIES)}.")
    with waiting("measuring"):
        result = bench_serve(wanted, ServeSize(length=length, layers=layers), repeats, max(1, repeats // 3))
    if json:
        print_json(result)
        return
    say(
        f"One text, {layers} layers, {result['threads']} threads: a prompt of {length} tokens, and each token after it."
    )
    columns = ("", "prompt", "times ours", "token", "times ours", "logits")
    for model, found in result["models"].items():
        say(table(model, columns, _rows(found)))
    say("logits: how far they are from those of transformers, relative to the largest.")
    for name, reason in result["absent"].items():
        say(f"{name} was not measured: {reason}.")


def _rows(found: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    prompt, token, difference = found["prefill"], found["decode"], found["difference"]
    for engine, seconds in prompt["seconds"].items():
        cells = (milliseconds(seconds, 0), spread(prompt["times ours"].get(engine)))
        decoding = (milliseconds(token["seconds"][engine], 1), spread(token["times ours"].get(engine)))
        apart = f"{difference[engine]:.0e}" if engine in difference else ""
        rows.append((engine, *cells, *decoding, apart))
    return rows
