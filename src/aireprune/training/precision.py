"""The loss of a batch in the precision of a recipe."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.tasks.base import Split, Task
from aireprune.tasks.evaluate import forward
from aireprune.training.recipes import Recipe


def loss_of(model: nn.Module, task: Task, batch: Split, recipe: Recipe, device: torch.device) -> Tensor:
    """Mean cross entropy of a batch, in float32 whatever the layers compute in."""
    precision = torch.autocast(device.type, torch.bfloat16) if recipe.precision == "bf16" else contextlib.nullcontext()
    with precision:
        logits = forward(model, task, batch)
    return F.cross_entropy(logits.float().flatten(0, -2), torch.from_numpy(batch.y).to(device).flatten())


def check_precision(recipe: Recipe, device: torch.device) -> None:
    """Raise where bfloat16 is wanted on a CPU that dies of it.

    Some machines announce AMX and then kill the process that uses it, so another process tries first.
    """
    if recipe.precision != "bf16" or device.type != "cpu":
        return
    trial = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
    if subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False).returncode:
        raise AireError(
            "Matrix products in bfloat16 crash on this machine, probably because its AMX unit is locked. "
            "Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment, or train in float32."
        )
