"""Training: AdamW with a learning rate of its own for the state space parameters, cosine schedule, resumable.

A run is a folder. `training.pt` in it holds everything needed to go on (weights, optimiser, step); dropout draws from
a seed of its own at every step, so an interrupted run that is started again with the same settings ends in the same
weights as an uninterrupted one. Under torchrun every process takes its share of each batch.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.files.atomic import atomic_path
from aireprune.models.create import AnyConfig, new_model
from aireprune.tasks.base import Split, Task
from aireprune.tasks.evaluate import evaluate, forward
from aireprune.training.workers import Workers, join

SSM_PARAMETERS = {
    "s5": ("Lambda_re", "Lambda_im", "log_step", "B", "norm.weight", "norm.bias"),
    "s4d": ("log_dt", "log_A_real", "A_imag", "D", "norms"),
    "mamba": ("A_log", "D", "dt_proj.bias", "norms", "norm.weight", "norm.bias"),
}
PRECISIONS = ("float32", "bf16")


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
    validate: int = 0  # validate on the first so many examples after every epoch; 0: all
    precision: str = "float32"  # or bf16: autocast, with float32 weights and scans

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise AireError(f"The precision is {self.precision!r}, expected one of {', '.join(PRECISIONS)}.")

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


def parameter_groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """State space and norm parameters: their own rate, no weight decay. The rest: the main rate, with decay."""
    ssm: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    special = SSM_PARAMETERS[str(model.family)]
    for name, parameter in model.named_parameters():
        path = f".{name}."
        (ssm if any(f".{part}." in path for part in special) else rest).append(parameter)
    return [
        {"params": ssm, "peak": recipe.ssm_lr, "lr": recipe.ssm_lr, "weight_decay": 0.0},
        {"params": rest, "peak": recipe.lr, "lr": recipe.lr, "weight_decay": recipe.weight_decay},
    ]


def batches(task: Task, recipe: Recipe, epoch: int, first: int = 0, rank: int = 0, count: int = 1) -> Iterator[Split]:
    """The epoch's shuffled batches from number `first` on; the order depends on the seed and the epoch only.

    Of every batch, process `rank` of `count` takes each count-th example.
    """
    examples = min(recipe.examples or len(task.train), len(task.train))
    order = np.random.default_rng((recipe.seed, epoch)).permutation(examples)
    for start in range(first * recipe.batch, examples - recipe.batch + 1, recipe.batch):
        yield task.train.rows(np.sort(order[start : start + recipe.batch])[rank::count])


def loss_of(model: nn.Module, task: Task, batch: Split, recipe: Recipe, device: torch.device) -> Tensor:
    """Mean cross entropy of a batch, in float32 whatever the layers compute in."""
    precision = torch.autocast(device.type, torch.bfloat16) if recipe.precision == "bf16" else contextlib.nullcontext()
    with precision:
        logits = forward(model, task, batch)
    return F.cross_entropy(logits.float().flatten(0, -2), torch.from_numpy(batch.y).to(device).flatten())


def require_bfloat16_products() -> None:
    """Some machines announce AMX and then kill the process that uses it, so another process tries first."""
    trial = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
    if subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False).returncode:
        raise AireError(
            "Matrix products in bfloat16 crash on this machine, probably because its AMX unit is locked. "
            "Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment, or train in float32."
        )


class Run:
    """The state of a training run: model, optimiser, position, and where they are saved."""

    def __init__(self, task: Task, config: AnyConfig, recipe: Recipe, folder: Path, workers: Workers):
        self.task, self.recipe, self.folder, self.workers = task, recipe, folder, workers
        self.settings = {"task": task.name, "config": config.to_dict(), "recipe": asdict(recipe)}
        if recipe.precision == "bf16" and workers.device.type == "cpu":
            require_bfloat16_products()
        self.model = new_model(config, recipe.seed).to(workers.device)
        self.settings["family"] = str(self.model.family)
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, recipe), betas=(0.9, 0.999))
        self.per_epoch = min(recipe.examples or len(task.train), len(task.train)) // recipe.batch
        if self.per_epoch == 0:
            raise AireError(f"A batch of {recipe.batch} is larger than the {len(task.train)} training examples.")
        workers.share(recipe.batch)
        self.step, self.seconds, self.steps = 0, 0.0, recipe.epochs * self.per_epoch
        self.history: list[dict[str, float]] = []
        self.saved = folder / "training.pt"
        if self.saved.is_file():
            self._resume()
        self.parallel = workers.wrap(self.model)

    def _resume(self) -> None:
        state = torch.load(self.saved, weights_only=True, map_location=self.workers.device)
        if state["settings"] != json.dumps(self.settings, sort_keys=True):
            raise AireError(f"{self.saved} belongs to a run with other settings. Choose another folder or delete it.")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.history = state["step"], state["seconds"], json.loads(state["history"])

    def save(self) -> None:
        if not self.workers.first:
            return
        state = {
            "settings": json.dumps(self.settings, sort_keys=True),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "history": json.dumps(self.history),
        }
        with atomic_path(self.saved) as temporary:
            torch.save(state, temporary)

    def learn(self, batch: Split) -> float:
        """One step on this process's share of a batch; the loss before it."""
        began = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * self.recipe.rate(self.step, self.steps)
        torch.manual_seed((self.recipe.seed * 1_000_003 + self.step) * self.workers.count + self.workers.rank)
        loss = loss_of(self.parallel, self.task, batch, self.recipe, self.workers.device)
        if not torch.isfinite(loss):
            raise AireError(
                f"The loss is {loss.item()} at step {self.step}: try a smaller learning rate (--lr, --ssm-lr)."
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        self.seconds += time.perf_counter() - began
        return loss.item()

    def validate(self) -> float:
        split = self.task.validation
        return evaluate(self.model, self.task, split.rows(slice(0, self.recipe.validate or len(split))))

    def finish(self) -> nn.Module:
        self.model.eval()
        if self.workers.first:
            summary = {
                **self.settings,
                "metric": self.task.metric,
                "history": self.history,
                "test": evaluate(self.model, self.task, self.task.test),
                "test_examples": len(self.task.test),
                "seconds": round(self.seconds, 1),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
            }
            with atomic_path(self.folder / "training.json") as temporary:
                temporary.write_text(json.dumps(summary, indent=1) + "\n")
        self.workers.wait()
        return self.model


def train_model(
    task: Task,
    config: AnyConfig,
    recipe: Recipe,
    folder: Path,
    report: Callable[[Progress], None] = lambda progress: None,
    save_every: int = 200,
    stop_after: int | None = None,
    device: str | None = None,
) -> nn.Module:
    """Train to the end, or resume a run in `folder`. `stop_after` ends the run early after so many steps, resumable."""
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(task, config, recipe, folder, join(device))
    start, workers = run.step, run.workers
    run.model.train()
    while run.step < run.steps:
        epoch, first = divmod(run.step, run.per_epoch)
        for batch in batches(task, recipe, epoch, first, workers.rank, workers.count):
            loss = run.learn(batch)
            report(Progress(epoch, run.step, run.steps, loss))
            if run.step % save_every == 0:
                run.save()
            if stop_after is not None and run.step - start >= stop_after:
                run.save()
                workers.wait()
                return run.model
        if workers.first:
            value = run.validate()
            run.history.append({"epoch": epoch, "validation": value, "seconds": round(run.seconds, 1)})
            report(Progress(epoch, run.step, run.steps, loss, value))
        run.save()
        workers.wait()
    return run.finish()
