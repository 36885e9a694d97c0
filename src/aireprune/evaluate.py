"""Accuracy of a classifier on a split."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from aireprune.tasks import Split, Task


@torch.inference_mode()
def predictions(model: nn.Module, task: Task, split: Split, batch: int = 20) -> np.ndarray:
    """Predicted class of every example, (N,)."""
    model.eval()
    parts = [
        model(torch.from_numpy(task.inputs(split.x[start : start + batch]))).argmax(-1).numpy()
        for start in range(0, len(split), batch)
    ]
    return np.concatenate(parts)


def accuracy(model: nn.Module, task: Task, split: Split, batch: int = 20) -> float:
    """Share of examples that are classified correctly."""
    return float((predictions(model, task, split, batch) == split.y).mean())
