"""Time of a training step of S4D, Mamba and Mamba-2, with whatever aireprune is found: another commit's, say. In turns:

    mkdir OLD && git archive cf467bd src | tar -x -C OLD
    PYTHONPATH=OLD/src python tools/training_steps.py s4d
    PYTHONPATH=src python tools/training_steps.py s4d

Freed memory is kept as `aire train` keeps it, which it did not before 07aac90.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from statistics import median

import torch
from torch import Tensor, nn

from aireprune import memory
from aireprune.models import mamba, mamba2, s4d
from aireprune.models.mamba2_config import Mamba2Config
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d_config import S4DConfig

WARM_UP = 3


def model_and_inputs(family: str) -> tuple[nn.Module, Tensor]:
    """The sizes of docs/performance.md."""
    if family == "s4d":
        config = S4DConfig(d_input=1, d_output=10, h=64, n=64, layers=4)
        return s4d.initialize(s4d.S4DModel(config)), torch.randn(50, 1024, 1)
    if family == "mamba":
        small = MambaConfig(d_input=1, d_output=10, d_model=32, layers=4, d_state=16)
        return mamba.initialize(mamba.MambaModel(small), 1), torch.randn(50, 784, 1)
    heads = Mamba2Config(d_input=1, d_output=10, d_model=32, layers=2, d_state=64, head_dim=16)
    return mamba2.initialize(mamba2.Mamba2Model(heads), 1), torch.randn(16, 784, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("family", choices=("s4d", "mamba", "mamba2"))
    parser.add_argument("--steps", type=int, default=15)
    args = parser.parse_args()
    torch.manual_seed(0)
    model, x = model_and_inputs(args.family)
    labels, optimizer = torch.randint(0, 10, (len(x),)), torch.optim.AdamW(model.train().parameters(), 1e-3)
    times = []
    with getattr(memory, "freed_memory_kept", nullcontext)():
        for _ in range(WARM_UP + args.steps):
            began = time.perf_counter()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), labels).backward()
            optimizer.step()
            times.append(time.perf_counter() - began)
    print(f"{args.family}: {1000 * median(times[WARM_UP:]):.0f} ms")


if __name__ == "__main__":
    main()
