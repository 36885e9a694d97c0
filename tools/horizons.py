"""What a horizon of the task's length is worth to balanced truncation, on validation data.

    AIRE_DATA=... .venv/bin/python tools/horizons.py zoo:image-s5=image zoo:listops-s4d=listops-mini
    AIRE_DATA=... .venv/bin/python tools/horizons.py C/s4d_scifar_rgb.pth=scifar_rgb --config config.json

For every model: how many of its states remember more steps than an input of the task has (|lambda|^L above 1/e), then, at
each ratio, agreement with the full model, KL divergence from it and accuracy, without a horizon and with one of that length.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import aireprune
from aireprune.pruning.source import open_module
from aireprune.tasks import load_task
from aireprune.tasks.base import Batch, Task

BATCH = 50


@torch.no_grad()
def answers(model: nn.Module, task: Task, count: int) -> Tensor:
    """Log-probabilities of the first validation examples, (N, classes)."""
    rows = (
        task.validation.rows(slice(start, start + BATCH)) for start in range(0, min(count, len(task.validation)), BATCH)
    )
    parts = [task.batch(part) for part in rows]
    return torch.cat([model(*_arguments(part)) for part in parts]).log_softmax(-1)


def _arguments(batch: Batch) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in (batch.x, batch.lengths) if array is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL=TASK")
    parser.add_argument("--config", type=Path, help="of the models, as JSON, where a file does not say all")
    parser.add_argument("--ratios", default="0.5,0.7,0.8,0.9")
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--calibrate-count", type=int, default=128)
    options = parser.parse_args()
    for name, of in (pair.split("=") for pair in options.models):
        task, full = load_task(of), aireprune.load(name, config=options.config)
        length = task.length
        wanted, right = answers(full, task, options.examples), torch.from_numpy(task.validation.y[: options.examples])
        lasting = [int((states.log_radius * length > -1).sum()) for states in open_module(full).states()]
        print(f"{name}, {length} steps; accuracy {share(wanted.argmax(1) == right)}; outlived by {lasting} states")
        for ratio in map(float, options.ratios.split(",")):
            for calibrate in (None, of):
                found = []
                given = {} if calibrate is None else {"calibrate": of, "calibrate_count": options.calibrate_count}
                for horizon in (None, length):  # balanced by name: a default would choose the horizon itself
                    small = aireprune.prune(full, ratio=ratio, reduce="balanced", horizon=horizon, **given)
                    said = answers(small, task, options.examples)
                    divergence = F.kl_div(said, wanted, reduction="batchmean", log_target=True)
                    same, good = said.argmax(1) == wanted.argmax(1), said.argmax(1) == right
                    found.append(f"{share(same)} same, KL {divergence:.4f}, {share(good)} right")
                how = "balanced" if calibrate is None else "calibrated"
                print(f"  {ratio:.0%} {how}: {found[0]}; with horizon {found[1]}", flush=True)


def share(hits: Tensor) -> str:
    return f"{100 * np.asarray(hits).mean():.1f} %"


if __name__ == "__main__":
    main()
