"""Memory that hand-written training steps work in, kept for the next call."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from aireprune.kernels.scan import CACHE_LINE, fresh

_LOCAL = threading.local()


def buffers(shapes: Sequence[tuple[int, int]], workers: int, like: Tensor) -> tuple[np.ndarray, ...]:
    """Arrays (workers, rows, width) that begin at cache lines, in memory that this Python thread's next call uses again.

    Behind the last of them is a line more, which `outer` may read.
    """
    line = CACHE_LINE // like.element_size()
    sizes = [-(-workers * rows * width // line) * line for rows, width in shapes]
    needed = sum(sizes) + line
    memory = getattr(_LOCAL, "memory", None)
    if memory is None or memory.dtype != like.dtype or memory.numel() < needed or memory.numel() > 4 * needed:
        memory = _LOCAL.memory = fresh(like, needed)
    found, at = [], 0
    for (rows, width), size in zip(shapes, sizes, strict=True):
        found.append(memory[at : at + workers * rows * width].view(workers, rows, width).numpy())
        at += size
    return tuple(found)


def arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    return tuple(tensor.numpy() for tensor in tensors)
