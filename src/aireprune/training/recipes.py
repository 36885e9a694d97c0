"""What to train with: the model and the recipe of a task by the tables of hyperparameters, with a user's changes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from aireprune.errors import AireError, did_you_mean
from aireprune.models.create import AnyConfig
from aireprune.models.lru_config import LRUConfig
from aireprune.models.mamba2_config import Mamba2Config
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5_config import S5Config
from aireprune.tasks.base import Task
from aireprune.training.hyperparameters import NAMES, OTHERWISE, PAPER, TABLES, VALIDATE, Hyperparameters

FAMILIES = ("s5", "s4d", "lru", "mamba", "mamba2")
PRECISIONS = ("float32", "bf16")
LRU_RADII = (0.9, 0.999)  # of the poles at initialisation, as the LRU paper has them for its image task


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
    hankel: float = 0.0  # weight of the sum of Hankel singular values in the loss (`aireprune.training.hankel`)
    augment: bool = False  # train on variations of the examples (`aireprune.tasks.augment`)
    start: str | None = None  # folder of a model whose weights the run begins with; None: new weights

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise AireError(f"The precision is {self.precision!r}, expected one of {', '.join(PRECISIONS)}.")
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise AireError(f"{name}={getattr(self, name)} is not possible: it is 1 or more.")
        for name in ("lr", "ssm_lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise AireError(f"{name}={getattr(self, name):g} is not possible: a learning rate is above 0.")
        for name in ("weight_decay", "examples", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise AireError(f"{name}={getattr(self, name)} is not possible: it is 0 or more.")
        if not 0 <= self.hankel < math.inf:
            raise AireError(f"The weight of the Hankel singular values is hankel={self.hankel}, expected 0 or more.")

    def rate(self, step: int, steps: int) -> float:
        """Share of the peak learning rate at a step: linear warm-up, then cosine to zero."""
        warm = max(1, round(self.warmup * steps))
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


@dataclass(frozen=True, kw_only=True)
class RecipeChanges:
    """What to train otherwise than the table says; None: as it says."""

    epochs: int | None = None
    batch: int | None = None
    lr: float | None = None
    ssm_lr: float | None = None
    weight_decay: float | None = None
    precision: str | None = None
    seed: int | None = None
    examples: int | None = None
    hankel: float | None = None
    augment: bool | None = None
    start: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelChanges:
    """What to build otherwise than the table says; None: as it says.

    features: h (Mamba and Mamba-2: d_model). states: n, both halves of each pair counted (S4D: per channel; Mamba and
    Mamba-2: d_state; LRU has no pairs).
    """

    layers: int | None = None
    features: int | None = None
    states: int | None = None
    blocks: int | None = None
    dropout: float | None = None

    def __post_init__(self) -> None:
        for name in ("layers", "features", "states", "blocks"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise AireError(f"{name}={value} is not possible: it is 1 or more.")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise AireError(f"dropout={self.dropout:g} is not possible: it is a share from 0 to below 1.")


def check_name(recipe: str) -> None:
    """Raise unless there is a recipe of that name."""
    if recipe not in NAMES:
        raise AireError(f"There is no recipe {recipe!r}. Recipes: {', '.join(NAMES)}.")


def base_task(task: str) -> str:
    """listops-mini -> listops."""
    return task.removesuffix("-mini").removesuffix("-8k")


def task_name(base: str, recipe: str) -> str:
    """The task that a recipe trains on; smnist and image have one size only."""
    if base not in PAPER:
        raise AireError(f"There is no recipe for {base!r}.{did_you_mean(base, PAPER)} Tasks: {', '.join(PAPER)}.")
    return base if recipe == "paper" or base in ("smnist", "image") else f"{base}-mini"


def training_recipe(base: str, family: str, recipe: str, changes: RecipeChanges = RecipeChanges()) -> Recipe:
    """How a recipe trains a family on a task."""
    row = hyperparameters(base, family, recipe)
    listed = Recipe(
        epochs=row.epochs,
        batch=row.batch,
        lr=row.lr,
        ssm_lr=row.ssm_lr,
        weight_decay=row.weight_decay,
        validate=VALIDATE[recipe],
    )
    return replace(listed, **{name: value for name, value in asdict(changes).items() if value is not None})


def model_config(task: Task, family: str, recipe: str, changes: ModelChanges = ModelChanges()) -> AnyConfig:
    """The model that a recipe trains on a task.

    The paper lists S5 only. S4D takes the same layers and features with 64 states (32 pairs; `mini`: half of them) per
    channel; LRU takes n states, one direction; Mamba and Mamba-2 take half the features as d_model (all for language
    models), expansion 2 and 16 or 128 (`mini`: 64) states.
    """
    row = _changed(hyperparameters(base_task(task.name), family, recipe), changes)
    if family == "s5":
        return _s5(task, row, changes.states or row.n)
    if family == "s4d":
        return _s4d(task, row, changes.states or (64 if recipe == "paper" else 32))
    if family == "lru":
        return _lru(task, row, changes.states or row.n)
    width = row.h // 2 if changes.features is None and not task.language else row.h
    if family == "mamba":
        return _mamba(task, row, width, changes.states or 16)
    if family == "mamba2":
        return _mamba2(task, row, width, changes.states or (128 if recipe == "paper" else 64))
    raise AireError(
        f"There is no model family {family!r} to train.{did_you_mean(family, FAMILIES)} Families: {', '.join(FAMILIES)}."
    )


def hyperparameters(base: str, family: str, recipe: str) -> Hyperparameters:
    """The line of a recipe's table that a family is trained with on a task."""
    return replace(TABLES[recipe][base], **OTHERWISE.get((recipe, family, base), {}))


def _changed(row: Hyperparameters, changes: ModelChanges) -> Hyperparameters:
    return replace(
        row,
        layers=row.layers if changes.layers is None else changes.layers,
        h=row.h if changes.features is None else changes.features,
        blocks=row.blocks if changes.blocks is None else changes.blocks,
        dropout=row.dropout if changes.dropout is None else changes.dropout,
    )


def _mode(task: Task) -> str:
    return "tokens" if task.language else "pool"


def _s5(task: Task, row: Hyperparameters, states: int) -> S5Config:
    return S5Config(
        d_input=task.d_input,
        d_output=task.classes,
        h=row.h,
        n=states,
        layers=row.layers,
        blocks=row.blocks,
        bidirectional=not task.language,
        C_init="lecun_normal",
        padded=task.test.lengths is not None,
        mode=_mode(task),
        retrieval=task.pairs,
        dropout=row.dropout,
        dt_min=row.dt_min,
    )


def _s4d(task: Task, row: Hyperparameters, states: int) -> S4DConfig:
    return S4DConfig(
        d_input=task.d_input,
        d_output=task.classes,
        h=row.h,
        n=states,
        layers=row.layers,
        prenorm=True,
        mode=_mode(task),
        retrieval=task.pairs,
        dropout=row.dropout,
        dt_min=row.dt_min,
    )


def _lru(task: Task, row: Hyperparameters, states: int) -> LRUConfig:
    return LRUConfig(
        d_input=task.d_input,
        d_output=task.classes,
        h=row.h,
        n=states,
        layers=row.layers,
        mode=_mode(task),
        retrieval=task.pairs,
        dropout=row.dropout,
        r_min=LRU_RADII[0],
        r_max=LRU_RADII[1],
    )


def _mamba(task: Task, row: Hyperparameters, width: int, states: int) -> MambaConfig:
    return MambaConfig(
        d_input=task.d_input,
        d_output=task.classes,
        d_model=width,
        d_state=states,
        layers=row.layers,
        mode=_mode(task),
        retrieval=task.pairs,
        dropout=row.dropout,
        dt_min=row.dt_min,
    )


def _mamba2(task: Task, row: Hyperparameters, width: int, states: int) -> Mamba2Config:
    return Mamba2Config(
        d_input=task.d_input,
        d_output=task.classes,
        d_model=width,
        d_state=states,
        head_dim=math.gcd(2 * width, 64 if width >= 128 else 16),
        layers=row.layers,
        mode=_mode(task),
        retrieval=task.pairs,
        dropout=row.dropout,
        dt_min=row.dt_min,
    )
