"""From a model to a torch.export program that was loaded again and found to agree with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.exports.outcome import require_agreement
from aireprune.exports.quiet import quiet
from aireprune.exports.request import ExportRequest
from aireprune.exports.torch.operators import StandardOperators
from aireprune.exports.trials import answers, make_trials, reference, relative, takes_tokens
from aireprune.models.arrays import is_own
from aireprune.tasks.base import Task

ABOUT = "aireprune.json"  # among the extra files of a program
LENGTHS = ("pool", "last")  # modes in which a model's answer depends on the lengths of its sequences


class Whole(nn.Module):
    """The model with x alone, or x and lengths, as its inputs, and logits as its output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        out: Any = self.model(x) if lengths is None else self.model(x, lengths)
        logits: Tensor = getattr(out, "logits", out)
        return logits


def write_program(
    model: nn.Module, path: Path, request: ExportRequest, about: dict[str, str], task: Task | None
) -> float:
    """Write the program, load it again, and raise if it differs; returns the largest relative difference."""
    tokens = takes_tokens(model, request.inputs, task)
    with quiet(), reference(model) as single:
        trials = make_trials(single, tokens, task)
        program = _exported(single, torch.from_numpy(trials[0].x))
        with path.open("wb") as file:
            torch.export.save(program, file, extra_files={ABOUT: json.dumps(about)})
        with path.open("rb") as file:
            loaded = torch.export.load(file).module()
        difference = 0.0
        for trial in trials:
            found = loaded(*_given(single, torch.from_numpy(trial.x), trial.lengths)).numpy()
            difference = max(difference, relative(found, answers(single, trial)))
    require_agreement(difference, "torch")
    return difference


def _given(model: nn.Module, x: Tensor, lengths: Any = None) -> tuple[Tensor, ...]:
    """The arguments of the program: classifiers take lengths as well, one for every sequence."""
    config: Any = model.config
    if not is_own(model) or config.mode not in LENGTHS:
        return (x,)
    return x, torch.full((len(x),), x.shape[1]) if lengths is None else torch.from_numpy(lengths)


def _exported(model: nn.Module, x: Tensor) -> Any:
    """The program of a model in standard operators, for any batch and length."""
    given, dynamic = _given(model, x), torch.export.Dim.DYNAMIC
    shapes = ({0: dynamic, 1: dynamic}, {0: dynamic})[: len(given)]
    with (
        torch.enable_grad(),
        torch.inference_mode(False),
    ):  # operators that may overwrite their inputs are for inference
        given = tuple(part.clone() for part in given)
        with StandardOperators():
            program = torch.export.export(Whole(model), given, dynamic_shapes=shapes, strict=False)
        program = program.run_decompositions({})
    left = sorted({str(node.target) for node in program.graph.nodes if "aireprune" in str(node.target)})
    if left:
        raise AireError(f"The program still holds operators of aireprune: {', '.join(left)}.")
    return program
