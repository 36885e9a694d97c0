"""aire bench: measurements, as ratios within one run. One module per command."""

from __future__ import annotations

import typer

from aireprune.cli.bench import checkpoint, export, layer, mamba, model, s4d, scaling, serve, step, train

COMMANDS = (
    checkpoint.checkpoint,
    train.train,
    layer.layer,
    model.model,
    scaling.scaling,
    mamba.mamba,
    s4d.s4d,
    export.export,
    step.step,
    serve.serve,
)

app = typer.Typer(help="Measurements on this machine, as ratios within one run.", no_args_is_help=True)
for command in COMMANDS:
    app.command()(command)
