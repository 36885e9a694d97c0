"""The paper's hyperparameters (`paper`, for a GPU) and small ones for two CPU cores (`mini`), task by task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAMES = ("mini", "paper")


@dataclass(frozen=True)
class Hyperparameters:
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
    "listops": Hyperparameters(8, 128, 16, 8, 0.0, 3e-3, 1e-3, 50, 40, 0.07),
    "text": Hyperparameters(6, 256, 192, 12, 0.1, 4e-3, 1e-3, 50, 35, 0.07),
    "retrieval": Hyperparameters(6, 128, 256, 16, 0.0, 2e-3, 1e-3, 32, 20, 0.05),
    "image": Hyperparameters(6, 512, 384, 3, 0.1, 5e-3, 1e-3, 50, 250, 0.07),
    "pathfinder": Hyperparameters(6, 192, 256, 8, 0.05, 5e-3, 9e-4, 64, 200, 0.07),
    "pathx": Hyperparameters(6, 128, 256, 16, 0.0, 2e-3, 6e-4, 32, 75, 0.05),
    # Not in the paper's table: Speech Commands with the sizes of the S5 paper, the other two ours.
    "speech": Hyperparameters(6, 96, 128, 16, 0.1, 8e-3, 2e-3, 16, 40, 0.04),
    "smnist": Hyperparameters(4, 96, 128, 1, 0.1, 8e-3, 2e-3, 50, 150, 0.01),
    "lm": Hyperparameters(8, 384, 256, 8, 0.1, 1e-3, 5e-4, 32, 20, 0.05),
}
MINI = {
    "listops": Hyperparameters(4, 64, 64, 8, 0.0, 3e-3, 1e-3, 50, 6, 0.05),
    "text": Hyperparameters(4, 64, 64, 4, 0.1, 3e-3, 1e-3, 32, 3, 0.05),
    "retrieval": Hyperparameters(4, 64, 64, 4, 0.0, 3e-3, 1e-3, 32, 4, 0.05),
    "image": Hyperparameters(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 50, 3, 0.05),
    "pathfinder": Hyperparameters(4, 64, 64, 4, 0.0, 4e-3, 1e-3, 50, 3, 0.05),
    "pathx": Hyperparameters(4, 64, 64, 4, 0.0, 3e-3, 1e-3, 32, 4, 0.05),
    "speech": Hyperparameters(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 32, 20, 0.05),
    "smnist": Hyperparameters(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 50, 7, 0.05),
    "lm": Hyperparameters(4, 64, 64, 4, 0.1, 4e-3, 1e-3, 16, 10, 0.05),
}
TABLES = {"paper": PAPER, "mini": MINI}
OTHERWISE: dict[tuple[str, str, str], dict[str, Any]] = {  # (recipe, family, task): what differs from the table
    ("mini", "s4d", "listops"): {"epochs": 4},
    ("mini", "mamba", "smnist"): {"epochs": 2},
    ("mini", "mamba", "lm"): {"epochs": 4},
    ("mini", "lru", "smnist"): {"layers": 2, "h": 32, "n": 256, "batch": 16, "epochs": 2},
    ("mini", "mamba2", "smnist"): {"layers": 2, "dropout": 0.0, "batch": 16, "epochs": 3},
}
VALIDATE = {"paper": 0, "mini": 2000}  # validation examples after every epoch; 0: all
