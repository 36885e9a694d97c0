"""How good a model is at a task: the share of right answers, or the bits per byte of a language model."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.models.evaluation import evaluation_mode
from aireprune.models.model_config import ModelConfig
from aireprune.models.s5 import S5SSM
from aireprune.tasks.base import Batch, Split, Task

BATCH_TOKENS = 2**14


def forward(model: nn.Module, task: Task, split: Split) -> Tensor:
    """Logits of a whole split, on the model's device."""
    return _logits(model, task.batch(split))


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    device = next(model.parameters()).device
    x = torch.from_numpy(batch.x).to(device)
    out = model(x) if batch.lengths is None else model(x, torch.from_numpy(batch.lengths).to(device))
    logits: Tensor = getattr(out, "logits", out)  # transformers models return more than logits
    return logits


def check_fit(model: nn.Module, task: Task) -> None:
    """One of our models must take the task's inputs and give its answers; of other models nothing is known."""
    config = getattr(model, "config", None)
    if not isinstance(config, ModelConfig):
        return
    values: dict[str, Any] = config.to_dict()
    for key, wanted, what in (
        ("d_input", task.d_input, "takes {} values per step (or so many different tokens)"),
        ("d_output", task.classes, "gives {} outputs"),
        ("retrieval", task.pairs, "compares pairs of documents: {}"),
    ):
        if values[key] != wanted:
            raise AireError(
                f"The model does not fit task {task.name}: it {what.format(values[key])}, and the task has {wanted}."
            )
    if (values["mode"] == "tokens") != task.language:
        kind = "every step" if task.language else "whole sequences"
        raise AireError(f"The model does not fit task {task.name}, which asks about {kind} (mode {values['mode']}).")


@contextlib.contextmanager
def sampled_as(model: nn.Module, task: Task) -> Iterator[None]:
    """For a task at another sampling rate than the model's training: S5's step sizes, multiplied for the time being."""
    layers = [module for module in model.modules() if isinstance(module, S5SSM)]
    if task.step_rescale != 1 and not layers:
        raise AireError(f"{task.name} is sampled at another rate; only S5 models can change theirs (step_rescale).")
    for layer in layers:
        layer.step_rescale *= task.step_rescale
    try:
        yield
    finally:
        for layer in layers:
            layer.step_rescale /= task.step_rescale


@torch.inference_mode()
def per_example(model: nn.Module, task: Task, split: Split, batch: int | None = None) -> np.ndarray:
    """Of every example, (N,): 1 or 0 for a right or wrong class; or the mean bits per byte. Dropout is off meanwhile."""
    check_fit(model, task)
    if not len(split):
        raise AireError(f"Task {task.name} has no examples to judge the model on.")
    step = batch or max(1, BATCH_TOKENS // task.length)
    with evaluation_mode(model), sampled_as(model, task):
        parts = [_judge(model, task, split.rows(slice(i, i + step)), i) for i in range(0, len(split), step)]
    return np.concatenate(parts)


def _judge(model: nn.Module, task: Task, part: Split, first: int) -> np.ndarray:
    """first: the number of the part's first example."""
    batch = task.batch(part)
    _check_inputs(task, batch.x, first)
    logits, y = _logits(model, batch).float().cpu(), torch.from_numpy(part.y)
    if not torch.isfinite(logits).all():
        raise AireError(
            f"The model's outputs are not finite (NaN or infinite) on task {task.name}, examples {first} to "
            f"{first + len(part) - 1}: its weights are damaged, or the inputs are not in the range it was trained on."
        )
    if task.language:
        bits = F.cross_entropy(logits.transpose(1, 2), y, reduction="none").mean(1) / math.log(2)
        return bits.double().numpy()
    return (logits.argmax(-1) == y).double().numpy()


def _check_inputs(task: Task, x: np.ndarray, first: int) -> None:
    """A value that is not a number makes every output wrong, which would look like a bad model."""
    if x.dtype.kind != "f":
        return
    finite = np.isfinite(x).reshape(len(x), -1).all(1)
    if not finite.all():
        raise AireError(
            f"Example {first + int(finite.argmin())} of task {task.name} holds values that are not finite (NaN or "
            "infinite in single precision). Repair the task's data, or leave the example out."
        )


def evaluate(model: nn.Module, task: Task, split: Split, batch: int | None = None) -> float:
    """The task's metric: accuracy (0 to 1, higher is better) or bits per byte (lower is better)."""
    return float(per_example(model, task, split, batch).mean())
