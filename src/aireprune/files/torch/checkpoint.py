"""PyTorch files (.pt, .pth, .ckpt, .bin), read so that nothing in them can run code.

A PyTorch file is a pickle, and a pickle may call anything. Only tensors and plain containers are built from it; a file
that needs more is refused before it has done anything. Tensors that share their memory (tied weights) share it in the
copy too.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aireprune.arrays import Edit, Shape
from aireprune.errors import AireError, shown
from aireprune.files.dtypes import cast, to_bfloat16
from aireprune.files.torch.containers import open_container
from aireprune.files.torch.state import carried, find_state, tensors
from aireprune.files.weights import Keys, Size, named
from aireprune.files.writing.finite import edited

MOST_EXPANDED = 64 << 20  # bytes that a tensor may have beyond those that are stored for it


class TorchFile:
    """The tensors of one file; a checkpoint by itself or a shard of a larger one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._layout = open_container(path)
        keys = find_state(self._layout.loaded)
        if keys is None:
            raise AireError(
                f"{path} holds no state dict: expected named tensors at its top or under a key such as 'model'."
            )
        self._keys = keys
        self._state = self._layout.loaded
        for key in keys:
            self._state = self._state[key]
        try:
            self._tensors = named(path, "tensors", tensors(self._state))
        except ValueError as error:
            raise AireError(f"{path} holds no state dict that can be read: {shown(error)}.") from None
        self.shapes: dict[str, Shape] = {name: tuple(tensor.shape) for name, (_, tensor) in self._tensors.items()}
        self.notices: list[str] = []
        dropped: list[str] = []
        carried(self._layout.loaded, keys, self._state, dropped)
        if dropped:
            names = shown(", ".join(dropped))
            self.notices.append(f"{shown(path.name)}: {names} would not fit pruned weights and is left out of a copy.")

    @property
    def within(self) -> Keys:
        """The keys that lead to the state dict."""
        return tuple(self._keys)

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensors[name][1]
        self._layout.check(tensor)
        return _values(tensor, self._where(name))

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        """Write an edited copy to `target`."""
        self._layout.check()
        final: dict[str, torch.Tensor] = {name: tensor for name, (_, tensor) in self._tensors.items()}
        shared: dict[Any, torch.Tensor] = {}
        for name, edit in edits.items():
            old = final[name]
            new = _like(old, edited(self[name], edit, self._where(name)), self._where(name))
            twin = shared.setdefault(_memory(old), new)
            final[name] = twin if torch.equal(twin, new) else new
        state = _replaced(self._state, {self._tensors[name][0]: final[name] for name in edits})
        self._save(carried(self._layout.loaded, self._keys, state, []), target)
        distinct = {_memory(tensor): tensor for tensor in final.values()}.values()
        return Size(sum(t.numel() * t.element_size() for t in distinct), sum(t.numel() for t in distinct))

    def _save(self, content: Any, target: Path) -> None:
        try:
            torch.save(content, target)
        except RecursionError:
            raise AireError(f"{self.path} is nested too deeply to be written again; save only its weights.") from None
        except RuntimeError as error:
            reason = shown(str(error).splitlines()[0] if str(error) else "no reason given")
            raise AireError(f"PyTorch cannot write {target.name}; the disk may be full ({reason}).") from None

    def _where(self, name: str) -> str:
        return f"{self.path}: tensor {shown(name)}"


def _values(tensor: torch.Tensor, where: str) -> np.ndarray:
    """A copy of a tensor's values as NumPy has them."""
    wanted = tensor.numel() * tensor.element_size()
    if wanted > tensor.untyped_storage().nbytes() + MOST_EXPANDED:
        raise AireError(
            f"{where} repeats {tensor.untyped_storage().nbytes()} stored bytes to {wanted}; save it contiguous first."
        )
    plain = tensor.detach()
    try:
        plain = plain.resolve_conj().resolve_neg()
        if plain.dtype == torch.bfloat16:
            return plain.float().numpy()
        return np.array(plain.numpy())
    except MemoryError:
        raise AireError(f"{where} has {wanted} bytes, for which there is not enough memory.") from None
    except (TypeError, RuntimeError):
        raise AireError(
            f"{where} is stored as {tensor.dtype} ({tensor.layout}), whose values cannot be edited; convert it first."
        ) from None


def _like(old: torch.Tensor, values: np.ndarray, where: str) -> torch.Tensor:
    """Values as a tensor of the old one's type."""
    if old.dtype == torch.bfloat16:
        new = torch.from_numpy(to_bfloat16(values, where).view(np.int16)).view(torch.bfloat16)
    else:
        numpy_type = torch.empty(0, dtype=old.dtype).numpy().dtype
        new = torch.from_numpy(np.array(cast(values, numpy_type, where), order="C"))
    return torch.nn.Parameter(new, old.requires_grad) if isinstance(old, torch.nn.Parameter) else new


def _memory(tensor: torch.Tensor) -> Any:
    """The same for two tensors exactly if they are the same view of the same memory."""
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _replaced(state: Any, tensors: Mapping[Keys, torch.Tensor]) -> Any:
    """The state with other tensors in some places. Containers are copied, with their attributes, where they change."""
    copies: dict[Keys, Any] = {(): copy.copy(state)}
    for where, tensor in tensors.items():
        for depth in range(1, len(where)):
            if where[:depth] not in copies:
                parent = copies[where[: depth - 1]]
                parent[where[depth - 1]] = copies[where[:depth]] = copy.copy(parent[where[depth - 1]])
        copies[where[:-1]][where[-1]] = tensor
    return copies[()]
