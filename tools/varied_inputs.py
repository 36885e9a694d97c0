"""Unlabelled training inputs of a task and variations of them, as a model takes them, for long recoveries.

    python tools/varied_inputs.py image inputs.npy --copies 4

The training split comes first as it is, then so many variations of it that keep the class, as `aire train --augment` draws
them: a recovery that passes over a few thousand inputs again and again learns them by heart.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from aireprune.tasks import load_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("task")
    parser.add_argument("out")
    parser.add_argument("--copies", type=int, default=4)
    args = parser.parse_args()
    task, rng = load_task(args.task), np.random.default_rng(0)
    if task.augment is None:
        raise SystemExit(f"There are no variations of {task.name} examples.")
    stored = [task.train.x, *(task.augment(rng, task.train.x) for _ in range(args.copies))]
    np.save(args.out, np.concatenate([task.batch(replace(task.train, x=values)).x for values in stored]))


if __name__ == "__main__":
    main()
