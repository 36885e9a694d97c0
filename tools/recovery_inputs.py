"""What should a recovery see once it has seen every input: the same again, mixtures, or pieces of others?

    python tools/recovery_inputs.py FULL REDUCED --task scifar_rgb --config config.json --steps 600

FULL and REDUCED are checkpoints; the second was made from the first by `aire prune --calibrate`. Printed is how far each
of the three is from the full model on inputs that were kept aside, at its best.
"""

from __future__ import annotations

import argparse
import copy

import numpy as np
import torch

import aireprune
from aireprune.calibration.calls import Call
from aireprune.calibration.inputs import task_inputs
from aireprune.calibration.lessons import Lessons
from aireprune.calibration.recovery import recover
from aireprune.calibration.recovery_run import Effort
from aireprune.pruning.source import open_module
from aireprune.tasks import load_task


def repeated(lessons: Lessons, units: np.ndarray, rng: np.random.Generator) -> Call:
    return lessons._call(units)


def spliced(lessons: Lessons, units: np.ndarray, rng: np.random.Generator) -> Call:
    """A piece of another sequence in the place of a sequence's own."""
    assert lessons._values is not None
    values, others = lessons._values[units], lessons._values[rng.choice(lessons._learnt, len(units))]
    for mine, other in zip(values, others, strict=True):
        start, end = np.sort(rng.integers(0, len(mine), 2))
        mine[start:end] = other[start:end]
    return Call((torch.from_numpy(values),))


WAYS = {"repeated": repeated, "mixed": Lessons._mixed, "spliced": spliced}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("full")
    parser.add_argument("reduced")
    parser.add_argument("--task", required=True)
    parser.add_argument("--config", help="what the file of the full model does not say, as JSON")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--count", type=int, default=20_000)
    args = parser.parse_args()
    full = open_module(aireprune.load(args.full, config=args.config))
    reduced = aireprune.load(args.reduced)
    inputs = task_inputs(load_task(args.task), args.count)
    for name, way in WAYS.items():
        Lessons._mixed = way  # type: ignore[method-assign]
        found = recover(full, open_module(copy.deepcopy(reduced)), inputs, Effort(steps=args.steps))
        print(f"{name}: {found.after.divergence:.4f} nats at step {found.best} ({found.before.divergence:.4f} before)")


if __name__ == "__main__":
    main()
