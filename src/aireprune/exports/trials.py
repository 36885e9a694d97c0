"""Inputs on which an exported file is held against its model: random ones, and those of a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.models.accelerate import fast_scans
from aireprune.models.arrays import is_own
from aireprune.models.evaluation import evaluation_mode
from aireprune.tasks.base import Task
from aireprune.tasks.fit import check_fit

SIZES = ((2, 33), (4, 70))  # sequences and steps of random inputs
EXAMPLES = 4  # of a task
STEPS = 24  # one by one


@dataclass(frozen=True, kw_only=True)
class Trial:
    """x (b, L, d_input) or tokens (b, L), and how many steps of every sequence count; None: all."""

    x: np.ndarray
    lengths: np.ndarray | None = None


def takes_tokens(model: nn.Module, inputs: str, task: Task | None) -> bool:
    """Whether the file takes tokens (b, L): as `inputs` says, else as the task does, else as the model's answers suggest."""
    if not is_own(model):
        if inputs == "numbers":
            raise AireError(f"A {type(model).__name__} takes tokens: leave out inputs=.")
        return True
    config: Any = model.config
    if inputs != "auto":
        return inputs == "tokens"
    return task.takes_tokens if task is not None else config.mode == "tokens" or config.retrieval


def make_trials(model: nn.Module, tokens: bool, task: Task | None) -> list[Trial]:
    """Random inputs of two sizes, one with sequences of unlike lengths, and the first examples of a task."""
    rng, found = np.random.default_rng(0), []
    config: Any = model.config
    for number, (batch, length) in enumerate(SIZES):
        if tokens:
            x = rng.integers(0, config.d_input if is_own(model) else config.vocab_size, (batch, length))
        else:
            x = rng.standard_normal((batch, length, config.d_input)).astype(np.float32)
        varied = number > 0 and is_own(model) and config.mode != "tokens"
        found.append(Trial(x=x, lengths=rng.integers(1, length + 1, batch) if varied else None))
    if task is not None:
        check_fit(model, task)
        batch_of_task = task.batch(task.test.rows(slice(EXAMPLES)))
        found.append(Trial(x=batch_of_task.x, lengths=batch_of_task.lengths))
    return found


@contextmanager
def reference(model: nn.Module) -> Iterator[nn.Module]:
    """The model in single precision and evaluation mode, with the fast scans, without gradients."""
    single = all(not p.is_floating_point() or p.dtype == torch.float32 for p in model.parameters())
    model = model if single else deepcopy(model).float()
    with evaluation_mode(model), fast_scans(model), torch.inference_mode():
        yield model


def answers(model: nn.Module, trial: Trial) -> np.ndarray:
    """The model's logits."""
    given = () if trial.lengths is None else (torch.from_numpy(trial.lengths),)
    out: Any = model(torch.from_numpy(trial.x), *given)
    logits: Tensor = getattr(out, "logits", out)
    return logits.float().cpu().numpy()


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, relative to the largest wanted number."""
    if not np.isfinite(wanted).all():
        raise AireError(
            "The model's own outputs are not finite (NaN or infinite), so a file cannot be held against it."
        )
    scale = max(float(np.abs(wanted).max(initial=0)), float(np.finfo(np.float32).tiny))
    difference = float(np.abs(found - wanted).max(initial=0)) / scale
    return difference if np.isfinite(difference) else float("inf")
