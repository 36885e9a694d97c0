"""A training run: model, optimiser and position, and the folder that they are kept in.

`training.pt` in the folder holds everything needed to go on, `training.json` what came out in the end.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aireprune.errors import AireError
from aireprune.files.writing.atomic import atomic_path
from aireprune.models.create import AnyConfig, new_model
from aireprune.tasks.base import Split, Task
from aireprune.tasks.evaluate import evaluate
from aireprune.training.hankel import check_regularised, hankel_sum
from aireprune.training.optimizer import hold_poles, new_optimizer, restore, set_rate
from aireprune.training.precision import check_precision, loss_of
from aireprune.training.recipes import Recipe
from aireprune.training.start import begin_with
from aireprune.training.workers import Workers


@dataclass(frozen=True)
class Epoch:
    """What a pass over the training data led to. seconds: of training, since the beginning."""

    epoch: int
    validation: float
    seconds: float


class Run:
    """The state of a run, resumed from its folder if it was begun there."""

    def __init__(self, task: Task, config: AnyConfig, recipe: Recipe, folder: Path, workers: Workers):
        self.task, self.recipe, self.folder, self.workers = task, recipe, folder, workers
        check_precision(recipe, workers.device)
        self.per_epoch = min(recipe.examples or len(task.train), len(task.train)) // recipe.batch
        if self.per_epoch == 0:
            raise AireError(f"A batch of {recipe.batch} is larger than the {len(task.train)} training examples.")
        workers.share(recipe.batch)
        if recipe.augment and task.augment is None:
            raise AireError(f"There are no variations of {task.name} examples that keep their class (augment=True).")
        self.model = new_model(config, recipe.seed).to(workers.device)
        if recipe.hankel:
            check_regularised(self.model)
        self.settings = {"task": task.name, "config": config.to_dict(), "recipe": asdict(recipe)}
        self.settings["family"] = str(self.model.family)
        if recipe.start is not None:
            self.settings["start"] = begin_with(self.model, recipe.start)
        self.optimizer = new_optimizer(self.model, recipe)
        self.step, self.seconds, self.steps = 0, 0.0, recipe.epochs * self.per_epoch
        self.history: list[Epoch] = []
        self.saved = folder / "training.pt"
        if self.saved.is_file():
            self._resume()
        self.parallel = workers.wrap(self.model)

    def _resume(self) -> None:
        try:
            state = torch.load(self.saved, weights_only=True, map_location=self.workers.device)
            if state["settings"] != json.dumps(self.settings, sort_keys=True):
                raise AireError(
                    f"{self.saved} belongs to a run with other settings. Choose another folder or delete it."
                )
            self._restore(state)
        except AireError:
            raise
        except Exception as problem:  # torch.load raises whatever a damaged file makes of it
            raise AireError(
                f"{self.saved} is damaged ({type(problem).__name__}); delete it to begin the run again."
            ) from problem

    def _restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        restore(self.optimizer, state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])
        if not 0 <= self.step <= self.steps:
            raise ValueError(f"step {self.step} of {self.steps}")
        self.history = [Epoch(**epoch) for epoch in json.loads(state["history"])]

    def save(self) -> None:
        """Keep what is needed to go on; of several processes, the first does."""
        if not self.workers.first:
            return
        state = {
            "settings": json.dumps(self.settings, sort_keys=True),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "history": json.dumps(self._history()),
        }
        with atomic_path(self.saved) as temporary:
            torch.save(state, temporary)

    def learn(self, batch: Split) -> float:
        """One step on this process's share of a batch; the loss before it."""
        began = time.perf_counter()
        set_rate(self.optimizer, self.recipe.rate(self.step, self.steps))
        torch.manual_seed((self.recipe.seed * 1_000_003 + self.step) * self.workers.count + self.workers.rank)
        loss = loss_of(self.parallel, self.task, batch, self.recipe, self.workers.device)
        if self.recipe.hankel:
            loss = loss + self.recipe.hankel * hankel_sum(self.model).to(loss.dtype)
        if not torch.isfinite(loss):
            raise AireError(
                f"The loss is {loss.item()} at step {self.step}: try a smaller learning rate (lr=, ssm_lr=)."
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        hold_poles(self.model)
        self.step += 1
        self.seconds += time.perf_counter() - began
        return loss.item()

    def validate(self, epoch: int) -> float:
        """The metric on validation examples, noted in the history."""
        split = self.task.validation
        value = evaluate(self.model, self.task, split.rows(slice(0, self.recipe.validate or len(split))))
        self.history.append(Epoch(epoch, value, round(self.seconds, 1)))
        return value

    def finish(self) -> nn.Module:
        """The trained model, in evaluation mode; training.json says how it was made and how good it is."""
        self.model.eval()
        if self.workers.first:
            with atomic_path(self.folder / "training.json") as temporary:
                temporary.write_text(json.dumps(self._summary(), indent=1) + "\n")
        self.workers.wait()
        return self.model

    def _summary(self) -> dict[str, Any]:
        return {
            **self.settings,
            "metric": self.task.metric,
            "history": self._history(),
            "test": evaluate(self.model, self.task, self.task.test),
            "test_examples": len(self.task.test),
            "seconds": round(self.seconds, 1),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }

    def _history(self) -> list[dict[str, Any]]:
        return [asdict(epoch) for epoch in self.history]
