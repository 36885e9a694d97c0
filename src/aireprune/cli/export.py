"""aire export: a model as a file that other engines run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.options import Checkpoint, Config, Json
from aireprune.cli.output import measured, next_step, notices, print_json, say, size, waiting

if TYPE_CHECKING:
    from aireprune.exports.outcome import Exported
    from aireprune.tasks.base import Task

RUN = {
    "onnx": 'onnxruntime.InferenceSession("{}")',
    "gguf": 'llama_cpp.Llama("{}")',
    "torch": 'torch.export.load("{}").module()',
}


def export(
    ckpt: Checkpoint,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Where to write the file.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="onnx|gguf|torch", help="The format. Default: as FILE ends (.onnx, .gguf, .pt2) says."
        ),
    ] = None,
    step: Annotated[
        bool,
        typer.Option("--step", help="ONNX: one step at a time, with the states as inputs and outputs of the graph."),
    ] = False,
    opset: Annotated[
        int,
        typer.Option(
            "--opset", metavar="N", help="ONNX: 20 to 26; 27 has an operator for selective scans, not released yet."
        ),
    ] = 20,
    inputs: Annotated[
        str,
        typer.Option(
            "--inputs",
            metavar="tokens|numbers",
            help="What a classifier takes. Default: what --task does, else numbers; language models take tokens.",
        ),
    ] = "auto",
    int8: Annotated[
        bool, typer.Option("--int8", help="ONNX: projections in 8 bits; with --task, the metric before and after.")
    ] = False,
    weights: Annotated[
        str, typer.Option("--weights", metavar="f32|f16|q8_0", help="GGUF: how matrices are stored.")
    ] = "f32",
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", help="Compare file and model on inputs of this task as well."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count", metavar="N", min=1, help="Judge 8-bit files on the first N test examples. Default: all."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write a model as ONNX, as GGUF for llama.cpp, or as a torch.export program that runs without aireprune.

    The file is run and held against the model; one that differs is not kept.
    """
    from aireprune.exports.export import export_source
    from aireprune.exports.request import make_export_request
    from aireprune.pruning.source import open_file

    wanted = make_export_request(
        out, to, {"step": step, "opset": opset, "inputs": inputs, "int8": int8, "weights": weights}
    )
    with waiting("writing and comparing"):
        done = export_source(open_file(ckpt, config), out, wanted, _first(task, count), overwrite)
    notices(done.notices)
    if json:
        print_json({"source": str(ckpt), **done.to_dict()})
        return
    _show(ckpt, done, wanted.to)


def _first(task: str | None, count: int | None) -> Task | None:
    """The task with so many test examples."""
    if task is None:
        return None
    from dataclasses import replace

    from aireprune.tasks import load_task

    loaded = load_task(task)
    return replace(loaded, test=loaded.test.rows(slice(count)))


def _show(ckpt: Path, done: Exported, to: str) -> None:
    say(f"{ckpt} -> {done.target}: {size(done.bytes)}, states per layer {', '.join(map(str, done.states))}")
    say(f"Checked: {done.checked}.")
    if done.judged is not None:
        before, after = (measured(done.judged.metric, value) for value in (done.judged.model, done.judged.file))
        say(f"Model: {before}; file with 8-bit projections: {after} ({done.judged.examples:,} test examples).")
    next_step(RUN[to].format(done.target))
