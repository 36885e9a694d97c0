"""PyTorch files (.pt, .pth, .ckpt, .bin), read so that nothing in them can run code.

A PyTorch file is a pickle, and a pickle may call anything. Only tensors and plain containers are accepted
(weights_only); a file that needs more is refused before it has done anything. Tensors that share their memory (tied
weights) share it in the copy too.
"""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aireprune.errors import AireError
from aireprune.files.base import Edit, Shape
from aireprune.files.dtypes import cast
from aireprune.files.safetensors_file import Size
from aireprune.files.single import beside, check_names, read_config, write_beside
from aireprune.files.torch_state import Keys, carried, find_state, tensors


class TorchFile:
    """The tensors of one file; a checkpoint by itself or a shard of a larger one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loaded = _load(path)
        keys = find_state(self._loaded)
        if keys is None:
            raise AireError(
                f"{path} holds no state dict: expected named tensors at its top or under a key such as 'model'."
            )
        self._keys = keys
        self._state = self._loaded
        for key in keys:
            self._state = self._state[key]
        self._tensors: dict[str, tuple[Keys, torch.Tensor]] = {}
        for where, tensor in tensors(self._state):
            name = ".".join(map(str, where))
            if name in self._tensors:
                raise AireError(f"{path} has two tensors whose dotted name is {name}.")
            self._tensors[name] = (where, tensor)
        self.shapes: dict[str, Shape] = {name: tuple(tensor.shape) for name, (_, tensor) in self._tensors.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return _values(self._tensors[name][1], f"{self.path}: tensor {name}")

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        """Write an edited copy to `target`."""
        state = _copied(self._state)
        final: dict[str, torch.Tensor] = {name: tensor for name, (_, tensor) in self._tensors.items()}
        shared: dict[Any, torch.Tensor] = {}
        for name, edit in edits.items():
            where, old = self._tensors[name]
            new = _like(old, edit(self[name]), f"{self.path}: tensor {name}")
            twin = shared.setdefault(_memory(old), new)
            final[name] = twin if torch.equal(twin, new) else new
            parent = state
            for key in where[:-1]:
                parent = parent[key]
            parent[where[-1]] = final[name]
        torch.save(carried(self._loaded, self._keys, state, []), target)
        distinct = {_memory(tensor): tensor for tensor in final.values()}.values()
        return Size(sum(t.numel() * t.element_size() for t in distinct), sum(t.numel() for t in distinct))


class TorchCheckpoint(TorchFile):
    """A single PyTorch file with NAME.json beside it."""

    kind = "torch"

    def __init__(self, path: Path, config: Mapping[str, Any] | str | Path | None = None) -> None:
        super().__init__(path)
        self.config: Mapping[str, Any] = read_config(path, config, beside(path, "json"))
        self.notices: list[str] = []
        dropped: list[str] = []
        carried(self._loaded, self._keys, self._state, dropped)
        if dropped:
            names = ", ".join(dropped)
            self.notices.append(f"{path.name}: {names} would not fit the pruned weights and is left out of the output.")

    def write(
        self,
        target: Path,
        edits: Mapping[str, Edit],
        config: Mapping[str, Any] | None = None,
        extras: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """See `Checkpoint.write`."""
        check_names(self.path, edits, self.shapes)

        def write(temporary: Path) -> None:
            self.copy_edited(temporary, edits)

        write_beside(self.path, self.kind, target, self.config if config is None else config, extras, overwrite, write)


def _load(path: Path) -> Any:
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic:
        raise AireError(f"{path} is empty; expected a PyTorch file.")
    zipped = magic == b"PK\x03\x04"
    if not zipped and magic[:1] != b"\x80":
        raise AireError(f"{path} is not a PyTorch file: it begins with {magic!r}, neither a zip archive nor a pickle.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except pickle.UnpicklingError as error:
        if needs := re.search(r"GLOBAL ([\w.]+)|[Uu]nsupported (?:class|global|operand)\S* ?(\S*)", str(error)):
            what = needs.group(1) or needs.group(2) or "an object"
            raise AireError(
                f"{path} holds more than tensors ({what}), and reading that could run code; "
                "open it in the project it comes from and save only model.state_dict()."
            ) from None
        raise AireError(f"{path} is damaged or truncated: its pickle cannot be read.") from None
    except (
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:
        if "TorchScript" in str(error):
            raise AireError(
                f"{path} is a TorchScript archive, a program; save only model.state_dict() instead."
            ) from None
        raise AireError(f"{path} is damaged or truncated: PyTorch cannot read it ({_first_sentence(error)}).") from None


def _first_sentence(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")[:200]


def _values(tensor: torch.Tensor, where: str) -> np.ndarray:
    """A copy of a tensor's values as NumPy has them."""
    plain = tensor.detach()
    try:
        plain = plain.resolve_conj().resolve_neg()
        if plain.dtype == torch.bfloat16:
            plain = plain.float()
        return np.array(plain.numpy())
    except (TypeError, RuntimeError):
        raise AireError(
            f"{where} is stored as {tensor.dtype} ({tensor.layout}), whose values cannot be edited; convert it first."
        ) from None


def _like(old: torch.Tensor, values: np.ndarray, where: str) -> torch.Tensor:
    """Values as a tensor of the old one's type."""
    wide = torch.float32 if old.dtype == torch.bfloat16 else old.dtype
    numpy_type = torch.empty(0, dtype=wide).numpy().dtype
    new = torch.from_numpy(np.array(cast(values, numpy_type, where), order="C")).to(old.dtype)
    return torch.nn.Parameter(new, old.requires_grad) if isinstance(old, torch.nn.Parameter) else new


def _memory(tensor: torch.Tensor) -> Any:
    """The same for two tensors exactly if they are the same view of the same memory."""
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _copied(state: Any) -> Any:
    """New containers, the same tensors. OrderedDicts keep the attributes that module versions are stored in."""
    if not isinstance(state, Mapping):
        return state
    result: Any = copy.copy(state)
    for key, value in state.items():
        result[key] = _copied(value)
    return result
