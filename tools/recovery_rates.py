"""What the learning rate is worth to recovery: the digit classifier with 80 % of its states gone, on validation digits.

    AIRE_DATA=... .venv/bin/python tools/recovery_rates.py auto 1e-3 3e-3 --steps 1000

auto: as trials choose it (`BETTER` in calibration/recovery_run.py). Every line takes some minutes of one core.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import aireprune
from aireprune.calibration import recovery_run
from aireprune.tasks import load_task
from aireprune.tasks.base import Task

RATES = recovery_run.RATES
BATCH = 100


@torch.no_grad()
def answers(model: nn.Module, task: Task) -> Tensor:
    """Log-probabilities of the validation digits, (N, 10)."""
    rows = (task.validation.rows(slice(start, start + BATCH)) for start in range(0, len(task.validation), BATCH))
    return torch.cat([model(torch.from_numpy(task.batch(part).x)) for part in rows]).log_softmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rates", nargs="+", metavar="RATE", help="a learning rate, or auto")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--ratio", type=float, default=0.8)
    parser.add_argument("--count", type=int, default=20_000, help="digits to learn from")
    options = parser.parse_args()
    task, full = load_task("smnist"), aireprune.load("zoo:smnist-s5")
    wanted, right = answers(full, task), torch.from_numpy(task.validation.y)
    print(f"full: accuracy {100 * (wanted.argmax(1) == right).double().mean():.2f} %")
    for rate in options.rates:
        recovery_run.RATES = RATES if rate == "auto" else (float(rate),)  # type: ignore[assignment]
        effort = {"recover_steps": options.steps, "recover_count": options.count}
        small = aireprune.prune(full, ratio=options.ratio, calibrate="smnist", **effort)
        found = answers(small, task)
        divergence = F.kl_div(found, wanted, reduction="batchmean", log_target=True)
        print(
            f"{rate}: KL {divergence:.5f}, agreement {100 * (found.argmax(1) == wanted.argmax(1)).double().mean():.2f} %, "
            f"accuracy {100 * (found.argmax(1) == right).double().mean():.2f} %"
        )


if __name__ == "__main__":
    main()
