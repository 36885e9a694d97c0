"""Data-parallel training: one process per device under torchrun, or this process alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from aireprune.errors import AireError

# Gloo's own thread lets go of a barrier some time after it was passed. If that is the last reference, the thread wants
# Python's lock, and where the interpreter is already ending, that aborts the process: so one reference stays here.
_LAST_BARRIER: list[distributed.Work] = []


@dataclass(frozen=True)
class Workers:
    """This process's number among `count`, and the device it computes on."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """The one that evaluates, reports and writes files."""
        return self.rank == 0

    def share(self, batch: int) -> int:
        """Examples of a batch that each process takes."""
        if batch % self.count:
            raise AireError(f"A batch of {batch} cannot be shared by {self.count} processes: choose a multiple.")
        return batch // self.count

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over all processes."""
        if self.count == 1:
            return model
        return DistributedDataParallel(model, device_ids=[self.device.index] if self.device.type == "cuda" else None)

    def wait(self) -> None:
        """Until every process is here."""
        if self.count > 1:
            _LAST_BARRIER[:] = [distributed.barrier(async_op=True)]
            _LAST_BARRIER[0].wait()


def join(device: str | None = None) -> Workers:
    """Join the processes that torchrun started (NCCL on GPUs, Gloo on CPUs); without torchrun: one process.

    device: of a single process; by default the first GPU if there is one.
    """
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    gpu = torch.cuda.is_available() and device != "cpu"
    if count == 1:
        return Workers(0, 1, torch.device(device or ("cuda:0" if gpu else "cpu")))
    place = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(place)
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(hours=1))
    return Workers(rank, count, place)
