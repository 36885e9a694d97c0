"""Activations that do not fit into memory, moved to files.

A tensor that is moved stays the same object for everybody who holds it; its values come from a file that is mapped into
memory, whose pages the system can drop and read again. The file has no name and is gone with the tensor.
"""

from __future__ import annotations

import mmap
import tempfile

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.calibration.calls import Call, is_plain

MEMORY = 2**30
SMALL = 2**16  # bytes, below which a tensor stays where it is
HELD = 4  # a pass holds about this many tensors like those it calls a layer with: two, in each of two models


class Spill:
    """Moves what forward passes carry to files, if all of it together would take more than `memory` bytes.

    passes: how many forward passes wait at the same time.
    """

    def __init__(self, passes: int, memory: int = MEMORY):
        self.passes, self.memory = passes, memory
        self.active = memory == 0

    def arrived(self, module: nn.Module, call: Call) -> None:
        """Called before a pass waits."""
        tensors = [tensor for tensor in call.tensors if is_plain(tensor)]
        if not self.active:
            size = sum(tensor.nbytes for tensor in tensors)
            self.active = HELD * size * self.passes > self.memory
        for tensor in tensors if self.active else ():
            move_to_file(tensor)

    def kept(self, tensor: Tensor) -> Tensor:
        """A tensor that is to be kept for a while."""
        if self.active:
            move_to_file(tensor)
        return tensor

    def watch(self, model: nn.Module, names: list[str]) -> list[torch.utils.hooks.RemovableHandle]:
        """Hooks that move what the modules around the named ones are called with, such as residual streams."""
        around = {name.rsplit(".", depth)[0] for name in names for depth in range(1, name.count(".") + 1)}
        return [
            model.get_submodule(name).register_forward_pre_hook(
                lambda module, args, kwargs: self.arrived(module, Call(args, kwargs)), with_kwargs=True
            )
            for name in sorted(around - set(names))
            if name
        ]


def move_to_file(tensor: Tensor) -> None:
    """Let a tensor's values come from a file."""
    if tensor.nbytes < SMALL or tensor.dtype == torch.bfloat16 or hasattr(tensor, "_in_a_file"):
        return
    with tempfile.TemporaryFile() as file:
        file.truncate(tensor.nbytes)
        pages = mmap.mmap(file.fileno(), tensor.nbytes)
    values = np.frombuffer(pages, dtype=str(tensor.dtype).removeprefix("torch.")).reshape(tuple(tensor.shape))
    values[...] = tensor.detach().numpy()
    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)  # the pages are the system's now, and count as its cache
    tensor.data = torch.from_numpy(values)
    tensor._in_a_file = True  # type: ignore[attr-defined]
