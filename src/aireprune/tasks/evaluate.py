"""How good a model is at a task, example by example: right answers, or the bits that a language model needs.

Models run in evaluation mode, transformers ones with the fast scans of `models/accelerate.py`, and are left as they were.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.models.accelerate import fast_scans
from aireprune.models.evaluation import evaluation_mode
from aireprune.models.s5 import S5SSM
from aireprune.models.together import Together
from aireprune.tasks.base import Batch, Split, Task
from aireprune.tasks.fit import check_fit, check_outputs

BATCH_TOKENS = 2**14
BATCH_OUTPUTS = 2**26  # numbers that a language model puts out at once
PART_OUTPUTS = 2**24  # those of which probabilities are made at once

Report = Callable[[int, int], None]  # (examples done, of how many)


@dataclass(frozen=True)
class Compared:
    """A model beside the full one on the same examples, (N,) each.

    metric, full_metric: as `per_example` has them. agreement: 1 or 0 for the same or another answer; of a language
    model, the share of steps with the same. divergence: KL(full || model) in nats, the mean over steps.
    """

    metric: np.ndarray
    full_metric: np.ndarray
    agreement: np.ndarray
    divergence: np.ndarray


def forward(model: nn.Module, task: Task, split: Split) -> Tensor:
    """Logits of a whole split, on the model's device."""
    return _logits(model, task.batch(split))


def evaluate(model: nn.Module, task: Task, split: Split, batch: int | None = None) -> float:
    """The task's metric: accuracy (0 to 1, higher is better) or bits per byte or token (lower is better)."""
    return float(per_example(model, task, split, batch).mean())


@torch.inference_mode()
def per_example(
    model: nn.Module,
    task: Task,
    split: Split,
    batch: int | None = None,
    report: Report = lambda done, total: None,
) -> np.ndarray:
    """Of every example, (N,): 1 or 0 for a right or wrong class; of a language task, the mean bits per byte (or token).

    batch: examples at a time.
    """
    parts = _outputs((model,), task, split, batch, report)
    return np.concatenate([_metric(task, logits, part) for part, (logits,) in parts])


@torch.inference_mode()
def per_example_of_copies(
    models: Sequence[nn.Module], task: Task, splits: Sequence[Split]
) -> list[tuple[np.ndarray, ...]]:
    """The same of every model for every split, where the models are pruned copies of one: what they share runs once."""
    together, of_splits = Together(models), []
    for split in splits:
        found = []
        for part, inputs, first in _parts(models, task, split, None):
            outputs = together(*_tensors(models[0], inputs))
            found.append([_metric(task, _checked(logits, task, part, first), part) for logits in outputs])
        of_splits.append([np.concatenate(values) for values in zip(*found, strict=True)])
    return list(zip(*of_splits, strict=True))


@torch.inference_mode()
def compare(
    model: nn.Module,
    full: nn.Module,
    task: Task,
    split: Split,
    batch: int | None = None,
    report: Report = lambda done, total: None,
) -> Compared:
    """Both models on every example; their outputs must have the same shape."""
    found = []
    for part, (ours, theirs) in _outputs((model, full), task, split, batch, report):
        if ours.shape != theirs.shape:
            raise AireError(
                f"The two models cannot be compared: one puts out {ours.shape[-1]:,} numbers, the other "
                f"{theirs.shape[-1]:,}."
            )
        metrics = (_metric(task, logits, part) for logits in (ours, theirs))
        agreement = _over_steps((ours.argmax(-1) == theirs.argmax(-1)).double())
        found.append((*metrics, agreement, _over_steps(_by_rows(_divergence, theirs, ours))))
    return Compared(*(np.concatenate(values) for values in zip(*found, strict=True)))


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


def _outputs(
    models: Sequence[nn.Module], task: Task, split: Split, batch: int | None, report: Report
) -> Iterator[tuple[Split, list[Tensor]]]:
    """Batch by batch, the examples and the logits of every model for them, single precision on the CPU."""
    done = 0
    for part, inputs, first in _parts(models, task, split, batch):
        yield part, [_checked(_logits(model, inputs), task, part, first) for model in models]
        done += len(part)
        report(done, len(split))


def _parts(
    models: Sequence[nn.Module], task: Task, split: Split, batch: int | None
) -> Iterator[tuple[Split, Batch, int]]:
    """Batch by batch, the examples, the inputs they make and the first one's number, while the models can be run."""
    for model, name in zip(models, ("The model", "The full model"), strict=False):
        check_fit(model, task, name)
    if not len(split):
        raise AireError(f"Task {task.name} has no examples to judge the model on.")
    if batch is not None and batch < 1:
        raise AireError(f"batch={batch} is no number of examples: give 1 or more.")
    step = batch or _examples_at_once(task)
    with contextlib.ExitStack() as around:
        for model in {id(model): model for model in models}.values():
            for context in (evaluation_mode(model), fast_scans(model), sampled_as(model, task)):
                around.enter_context(context)
        for first in range(0, len(split), step):
            part = split.rows(slice(first, first + step))
            inputs = task.batch(part)
            _check_inputs(task, inputs.x, first)
            yield part, inputs, first


def _examples_at_once(task: Task) -> int:
    outputs = task.length * task.classes if task.language else 1
    return max(1, min(BATCH_TOKENS // task.length, BATCH_OUTPUTS // outputs))


def _tensors(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Inputs and lengths on the model's device."""
    device = next(model.parameters()).device
    lengths = None if batch.lengths is None else torch.from_numpy(batch.lengths).to(device)
    return torch.from_numpy(batch.x).to(device), lengths


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    x, lengths = _tensors(model, batch)
    out = model(x) if lengths is None else model(x, lengths)
    logits: Tensor = getattr(out, "logits", out)  # transformers models return more than logits
    return logits


def _checked(logits: Tensor, task: Task, part: Split, first: int) -> Tensor:
    """The logits in single precision on the CPU. first: the number of the part's first example."""
    logits = logits.float().cpu()
    check_outputs(logits, task, part)
    if not torch.isfinite(logits).all():
        raise AireError(
            f"The model's outputs are not finite (NaN or infinite) on task {task.name}, examples {first} to "
            f"{first + len(part) - 1}: its weights are damaged, or the inputs are not in the range it was trained on."
        )
    return logits


def _metric(task: Task, logits: Tensor, part: Split) -> np.ndarray:
    y = torch.from_numpy(part.y)
    if not task.language:
        return (logits.argmax(-1) == y).double().numpy()
    bits = _over_steps(_by_rows(partial(F.cross_entropy, reduction="none"), logits, y)) / math.log(2)
    return bits / (task.bytes_per_token or 1)


def _divergence(full: Tensor, model: Tensor) -> Tensor:
    """KL(full || model) of rows of logits, in nats."""
    p, q = full.log_softmax(-1), model.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def _by_rows(function: Callable[[Tensor, Tensor], Tensor], logits: Tensor, other: Tensor) -> Tensor:
    """A function of rows (logits of an example or of a step), applied to a bounded number of them at a time."""
    size = max(1, PART_OUTPUTS // logits.shape[-1])
    rows = logits.reshape(-1, logits.shape[-1]).split(size)
    others = other.reshape(-1, *other.shape[logits.ndim - 1 :]).split(size)
    values = [function(a, b).double() for a, b in zip(rows, others, strict=True)]
    return torch.cat(values).reshape(logits.shape[:-1])


def _over_steps(values: Tensor) -> np.ndarray:
    """(n,) or (n, L) -> the mean of every example, (n,)."""
    return values.reshape(len(values), -1).mean(1).numpy()


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
