"""aire convert: one of our Mamba language models as a folder that transformers loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.options import Checkpoint, Config, Json
from aireprune.cli.output import next_step, notices, print_json, say
from aireprune.errors import AireError

if TYPE_CHECKING:
    from torch import nn

    from aireprune.calibration.head import FittedHead
    from aireprune.models.mamba import MambaModel
    from aireprune.pruning.source import FileSource


def convert(
    ckpt: Checkpoint,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="FOLDER", help="Where to write the folder; must not exist."),
    ],
    calibrate: Annotated[
        str | None,
        typer.Option(
            "--calibrate",
            metavar="SOURCE",
            help="Unlabelled inputs to fit another head with, where transformers does not have the model's final norm or "
            "the bias of its head: a task's name (its training split), a .npy or .npz file, or a directory of them.",
        ),
    ] = None,
    calibrate_count: Annotated[
        int, typer.Option("--calibrate-count", metavar="N", help="Use at most N calibration sequences.")
    ] = 256,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FOLDER if it exists.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write one of our Mamba language models as a Hugging Face folder, for transformers' MambaForCausalLM.

    The logits are the same, and a model of bytes gets a tokenizer. What transformers does not have is refused by name.
    """
    from aireprune.files.writing.atomic import refuse_existing
    from aireprune.models.huggingface_export import export_folder, exportable
    from aireprune.pruning.source import open_file

    refuse_existing(out, overwrite)
    source = open_file(ckpt, config)
    model = exportable(_built(source))
    fitted = _fitted(model, calibrate, calibrate_count)
    export_folder(model, out, None if fitted is None else fitted.weight, overwrite)
    notices(source.notices)
    notices([] if fitted is None else [str(fitted)])
    if json:
        fit = None if fitted is None else {"divergence": fitted.divergence, "changed": fitted.changed}
        print_json({"source": str(ckpt), "target": str(out), "fitted_head": fit})
        return
    say(f"{ckpt} -> {out}: MambaForCausalLM, {model.config.layers} layers, {model.config.d_input} tokens")
    next_step(f'AutoModelForCausalLM.from_pretrained("{out}")')


def _built(source: FileSource) -> nn.Module:
    if source.kind == "huggingface":
        raise AireError(f"{source.name} is a Hugging Face folder already.")
    return source.build()


def _fitted(model: MambaModel, calibrate: str | None, count: int) -> FittedHead | None:
    """A fitted head, if inputs for it are given and the model's own does not fit."""
    if calibrate is None:
        return None
    from aireprune.calibration.head import fit_head
    from aireprune.calibration.inputs import read_inputs
    from aireprune.models.huggingface_export import head_misfits

    return fit_head(model, read_inputs(calibrate, count)) if head_misfits(model) else None
