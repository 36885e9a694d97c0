"""How good a model is at a task: the share of right answers, or the bits per byte of a language model."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.nn.s5 import S5SSM
from aireprune.tasks.base import Split, Task

BATCH_TOKENS = 2**14


def forward(model: nn.Module, task: Task, split: Split) -> Tensor:
    """Logits of a whole split, on the model's device."""
    batch, device = task.batch(split), next(model.parameters()).device
    x = torch.from_numpy(batch.x).to(device)
    out = model(x) if batch.lengths is None else model(x, torch.from_numpy(batch.lengths).to(device))
    logits: Tensor = getattr(out, "logits", out)  # transformers models return more than logits
    return logits


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
    """Of every example, (N,): 1 or 0 for a right or wrong class; or the mean bits per byte."""
    model.eval()
    step, parts = batch or max(1, BATCH_TOKENS // task.length), []
    for start in range(0, len(split), step):
        part = split.rows(slice(start, start + step))
        with sampled_as(model, task):
            logits, y = forward(model, task, part).float().cpu(), torch.from_numpy(part.y)
        if task.language:
            bits = F.cross_entropy(logits.transpose(1, 2), y, reduction="none").mean(1) / math.log(2)
            parts.append(bits.double().numpy())
        else:
            parts.append((logits.argmax(-1) == y).double().numpy())
    return np.concatenate(parts)


def evaluate(model: nn.Module, task: Task, split: Split, batch: int | None = None) -> float:
    """The task's metric: accuracy (0 to 1, higher is better) or bits per byte (lower is better)."""
    return float(per_example(model, task, split, batch).mean())
