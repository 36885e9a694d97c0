"""Training: AdamW with a learning rate of its own for the state space parameters, cosine schedule, resumable.

A run is a folder. `training.pt` in it holds everything needed to go on (weights, optimiser, step, random state); an
interrupted run that is started again with the same settings ends in the same weights as an uninterrupted one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.evaluate import accuracy
from aireprune.files.atomic import atomic_path
from aireprune.nn.s5 import S5Model, initialize
from aireprune.nn.s5_config import S5Config
from aireprune.tasks import Task

SSM_PARAMETERS = ("Lambda_re", "Lambda_im", "log_step", "B", "norm.weight", "norm.bias")


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a run besides task and model."""

    epochs: int = 8
    batch: int = 50
    lr: float = 4e-3
    ssm_lr: float = 1e-3
    weight_decay: float = 0.05
    warmup: float = 0.1  # share of all steps
    seed: int = 0
    examples: int = 0  # use only the first so many training examples; 0: all

    def rate(self, step: int, steps: int) -> float:
        """Share of the peak learning rate at a step: linear warm-up, then cosine to zero."""
        warm = max(1, round(self.warmup * steps))
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


@dataclass(frozen=True)
class Progress:
    """What a caller may want to show after a step."""

    epoch: int
    step: int
    steps: int
    loss: float
    validation: float | None = None


def parameter_groups(model: nn.Module, recipe: Recipe) -> list[dict[str, object]]:
    """State space and norm parameters: their own rate, no weight decay. The rest: the main rate, with decay."""
    ssm: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_ssm = name.endswith(SSM_PARAMETERS) or name.rsplit(".", 1)[-1] in SSM_PARAMETERS
        (ssm if is_ssm else rest).append(parameter)
    return [
        {"params": ssm, "peak": recipe.ssm_lr, "lr": recipe.ssm_lr, "weight_decay": 0.0},
        {"params": rest, "peak": recipe.lr, "lr": recipe.lr, "weight_decay": recipe.weight_decay},
    ]


def batches(task: Task, recipe: Recipe, epoch: int, first: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """The epoch's shuffled batches from number `first` on; the order depends on the seed and the epoch only."""
    count = recipe.examples or len(task.train)
    order = np.random.default_rng((recipe.seed, epoch)).permutation(min(count, len(task.train)))
    for start in range(first * recipe.batch, len(order) - recipe.batch + 1, recipe.batch):
        rows = np.sort(order[start : start + recipe.batch])
        yield torch.from_numpy(task.inputs(task.train.x[rows])), torch.from_numpy(task.train.y[rows])


def train_model(
    task: Task,
    config: S5Config,
    recipe: Recipe,
    folder: Path,
    report: Callable[[Progress], None] = lambda progress: None,
    save_every: int = 200,
    stop_after: int | None = None,
) -> S5Model:
    """Train to the end, or resume a run in `folder`. `stop_after` ends the run early after so many steps, resumable."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"task": task.name, "config": config.to_dict(), "recipe": asdict(recipe)}
    model = initialize(S5Model(config), recipe.seed)
    optimizer = torch.optim.AdamW(parameter_groups(model, recipe), betas=(0.9, 0.999))
    per_epoch = min(recipe.examples or len(task.train), len(task.train)) // recipe.batch
    if per_epoch == 0:
        raise AireError(f"A batch of {recipe.batch} is larger than the {len(task.train)} training examples.")
    steps, step, seconds, resume = recipe.epochs * per_epoch, 0, 0.0, folder / "training.pt"
    history: list[dict[str, float]] = []
    torch.manual_seed(recipe.seed)
    if resume.is_file():
        saved = torch.load(resume, weights_only=True)
        if saved["settings"] != json.dumps(settings, sort_keys=True):
            raise AireError(f"{resume} belongs to a run with other settings. Choose another folder or delete it.")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["rng"])
        step, seconds, history = saved["step"], saved["seconds"], json.loads(saved["history"])

    def save() -> None:
        state = {
            "settings": json.dumps(settings, sort_keys=True),
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "rng": torch.get_rng_state(),
            "step": step,
            "seconds": seconds,
            "history": json.dumps(history),
        }
        with atomic_path(resume) as temporary:
            torch.save(state, temporary)

    start_step = step
    model.train()
    while step < steps:
        epoch, first = divmod(step, per_epoch)
        for x, y in batches(task, recipe, epoch, first):
            began = time.perf_counter()
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * recipe.rate(step, steps)
            loss = F.cross_entropy(model(x), y)
            if not torch.isfinite(loss):
                raise AireError(
                    f"The loss is {loss.item()} at step {step}: try a smaller learning rate (--lr, --ssm-lr)."
                )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            seconds += time.perf_counter() - began
            report(Progress(epoch, step, steps, loss.item()))
            if step % save_every == 0:
                save()
            if stop_after is not None and step - start_step >= stop_after:
                save()
                return model
        validation = accuracy(model, task, task.validation)
        model.train()
        history.append({"epoch": epoch, "validation": validation, "seconds": round(seconds, 1)})
        report(Progress(epoch, step, steps, loss.item(), validation))
        save()
    model.eval()
    summary = {**settings, "history": history, "test": accuracy(model, task, task.test), "seconds": round(seconds, 1)}
    with atomic_path(folder / "training.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=1) + "\n")
    return model
