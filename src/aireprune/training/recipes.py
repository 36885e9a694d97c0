"""What to train with: the paper's hyperparameters (`paper`, for a GPU) and small ones for two CPU cores (`mini`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aireprune.errors import AireError
from aireprune.models.create import AnyConfig
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5_config import S5Config
from aireprune.tasks.base import Task
from aireprune.training.loop import Recipe

NAMES = ("mini", "paper")
FAMILIES = ("s5", "s4d", "mamba")
BASE_TASKS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx", "speech", "smnist", "lm")


@dataclass(frozen=True)
class Row:
    """A line of the paper's Table 4: layers L, features h, states n, blocks J, dropout, rates, batch, epochs, decay."""

    layers: int
    h: int
    n: int
    blocks: int
    dropout: float
    lr: float
    ssm_lr: float
    batch: int
    epochs: int
    weight_decay: float
    dt_min: float = 0.001


PAPER = {
    "listops": Row(8, 128, 16, 8, 0.0, 3e-3, 1e-3, 50, 40, 0.07),
    "text": Row(6, 256, 192, 12, 0.1, 4e-3, 1e-3, 50, 35, 0.07),
    "retrieval": Row(6, 128, 256, 16, 0.0, 2e-3, 1e-3, 32, 20, 0.05),
    "image": Row(6, 512, 384, 3, 0.1, 5e-3, 1e-3, 50, 250, 0.07),
    "pathfinder": Row(6, 192, 256, 8, 0.05, 5e-3, 9e-4, 64, 200, 0.07),
    "pathx": Row(6, 128, 256, 16, 0.0, 2e-3, 6e-4, 32, 75, 0.05),
    # Not in the paper's table: Speech Commands with the sizes of the S5 paper, the other two ours.
    "speech": Row(6, 96, 128, 16, 0.1, 8e-3, 2e-3, 16, 40, 0.04),
    "smnist": Row(4, 96, 128, 1, 0.1, 8e-3, 2e-3, 50, 150, 0.01),
    "lm": Row(8, 384, 256, 8, 0.1, 1e-3, 5e-4, 32, 20, 0.05),
}
MINI = {
    "listops": Row(4, 64, 64, 8, 0.0, 3e-3, 1e-3, 50, 6, 0.05),
    "text": Row(4, 64, 64, 4, 0.1, 3e-3, 1e-3, 32, 3, 0.05),
    "retrieval": Row(4, 64, 64, 4, 0.0, 3e-3, 1e-3, 32, 4, 0.05),
    "image": Row(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 50, 3, 0.05),
    "pathfinder": Row(4, 64, 64, 4, 0.0, 4e-3, 1e-3, 50, 3, 0.05),
    "pathx": Row(4, 64, 64, 4, 0.0, 3e-3, 1e-3, 32, 4, 0.05),
    "speech": Row(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 32, 20, 0.05),
    "smnist": Row(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 50, 7, 0.05),
    "lm": Row(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 16, 10, 0.05),
}
ROWS = {"paper": PAPER, "mini": MINI}
MINI_EPOCHS = {("s4d", "listops"): 4, ("mamba", "smnist"): 2, ("mamba", "lm"): 4}
VALIDATE = {"paper": 0, "mini": 2000}


def base_task(task: str) -> str:
    """listops-mini -> listops."""
    return task.removesuffix("-mini").removesuffix("-8k")


def task_name(base: str, recipe: str) -> str:
    """The task that a recipe trains on; smnist and image have one size only."""
    if base not in BASE_TASKS:
        raise AireError(f"There is no recipe for {base!r}. Tasks: {', '.join(BASE_TASKS)}.")
    return base if recipe == "paper" or base in ("smnist", "image") else f"{base}-mini"


def training_recipe(base: str, family: str, recipe: str, **changes: Any) -> Recipe:
    row = ROWS[recipe][base]
    values: dict[str, Any] = {
        "epochs": MINI_EPOCHS.get((family, base), row.epochs) if recipe == "mini" else row.epochs,
        "batch": row.batch,
        "lr": row.lr,
        "ssm_lr": row.ssm_lr,
        "weight_decay": row.weight_decay,
        "validate": VALIDATE[recipe],
    }
    return Recipe(**{**values, **changes})


def model_config(task: Task, family: str, recipe: str, **changes: Any) -> AnyConfig:
    """The model that a recipe trains on a task. `changes` overrule its layers, features, states, blocks, dropout.

    The paper lists S5 only. S4D takes the same layers and features with 64 states (32 pairs) per channel; Mamba takes
    half the features as d_model, expansion 2 and 16 states.
    """
    row = ROWS[recipe][base_task(task.name)]
    wanted = {key: value for key, value in changes.items() if value is not None}
    layers, h = wanted.get("layers", row.layers), wanted.get("features", row.h)
    dropout, states = wanted.get("dropout", row.dropout), wanted.get("states")
    mode = "tokens" if task.language else "pool"
    common: dict[str, Any] = {
        "d_input": task.d_input,
        "d_output": task.classes,
        "layers": layers,
        "mode": mode,
        "retrieval": task.pairs,
        "dropout": dropout,
        "dt_min": row.dt_min,
    }
    if family == "s5":
        return S5Config(
            h=h,
            n=states or row.n,
            blocks=wanted.get("blocks", row.blocks),
            bidirectional=not task.language,
            C_init="lecun_normal",
            padded=task.test.lengths is not None,
            **common,
        )
    if family == "s4d":
        return S4DConfig(h=h, n=states or (64 if recipe == "paper" else 32), prenorm=True, **common)
    if family == "mamba":
        width = wanted.get("features", row.h if task.language else row.h // 2)
        return MambaConfig(d_model=width, d_state=states or 16, **common)
    raise AireError(f"There is no model family {family!r} to train. Families: {', '.join(FAMILIES)}.")
