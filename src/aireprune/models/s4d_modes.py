"""The modes of an S4D layer as its scan takes them, kept while the parameters they were made from stay the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from aireprune.kernels.s4d import Packed, packed_modes


@dataclass(frozen=True)
class _Kept:
    parameters: list[Tensor]  # copies
    dtype: torch.dtype
    modes: Packed


_KEPT: WeakKeyDictionary[nn.Module, _Kept] = WeakKeyDictionary()


def kept_modes(kernel: Any, dtype: torch.dtype) -> Packed:
    """The discrete modes of the kernel for inputs of a type.

    Parameters are compared by value, which takes a twentieth of the time of discretising them, and no change of a weight
    can go unnoticed.
    """
    now = [*kernel.parameters(), *kernel.buffers()]
    kept = _KEPT.get(kernel)
    if kept is None or kept.dtype != dtype or not _equal(now, kept.parameters):
        lam, w = kernel.discrete()
        modes = packed_modes(lam, w, dtype)
        kept = _KEPT[kernel] = _Kept([tensor.detach().clone() for tensor in now], dtype, modes)
    return kept.modes


def _equal(now: list[Tensor], before: list[Tensor]) -> bool:
    alike = [tensor.dtype for tensor in now] == [tensor.dtype for tensor in before]
    return alike and all(map(torch.equal, now, before))
