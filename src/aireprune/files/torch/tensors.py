"""What the pickle of a PyTorch file may name and call: tensors, and the plain things that are saved along with them.

Tensors are built without their values; these are in storages elsewhere in the file, whose places are only known later
(`TensorTable.fill`). Every shape and stride is checked against its storage first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from aireprune.files.shapes import MOST, elements, is_shape
from aireprune.files.torch.pickle_machine import ENTRY, SET, SMALL, Builder, checked_attributes, checked_key

TENSOR_COST = 1000  # bytes of a tensor without its values, and what PyTorch keeps about it
STORAGES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "ComplexDouble": torch.complex128,
    "ComplexFloat": torch.complex64,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
}
DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
FLAGS = {"conj", "neg"}
LATIN = ("latin1", "latin-1")


@dataclass(frozen=True, slots=True)
class Storage:
    """Values of one type in a row, somewhere in the file: `count` elements under a key, of which a part is meant."""

    key: str
    dtype: torch.dtype | None  # None: bytes, whose tensors say what they are
    count: int
    start: int  # in elements
    length: int

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A tensor that has no values yet, and where in a storage they are."""

    tensor: torch.Tensor
    storage: Storage
    offset: int  # in elements of the tensor's type
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    requires_grad: bool
    flags: dict[str, bool]


class TensorTable:
    """The table for one file, and the tensors that were built with it."""

    def __init__(self) -> None:
        self._views: dict[int, View] = {}  # by the tensor's id; the views keep the tensors alive
        self.storages: dict[str, Storage] = {}
        self.names = _plain_names() | {
            "torch._utils._rebuild_tensor": Builder(self._tensor, TENSOR_COST),
            "torch._utils._rebuild_tensor_v2": Builder(self._tensor, TENSOR_COST),
            "torch._utils._rebuild_tensor_v3": Builder(self._tensor_of_type, TENSOR_COST),
            "torch._utils._rebuild_parameter": Builder(self._parameter, TENSOR_COST),
            "torch._utils._rebuild_parameter_with_state": Builder(self._parameter, TENSOR_COST),
            "torch._tensor._rebuild_from_type_v2": Builder(self._with_attributes),
        }

    def storage(self, reference: Any) -> Storage:
        """The storage that a pickle refers to: ("storage", type, key, location, count[, part of it])."""
        word, kind, key, _, count, *part = reference
        if word not in ("storage", b"storage") or not isinstance(kind, StorageType) or not is_shape([count]):
            raise ValueError("a reference to something that is no storage")
        key = key.decode() if isinstance(key, bytes) else str(checked_key(key))
        start, length = 0, count
        if part and part[0] is not None:
            _, start, length = part[0]
            if not is_shape([start]) or not is_shape([length]) or start + length > count:
                raise ValueError(f"a part of storage {key} that lies outside of it")
        found = Storage(key, kind.dtype, count, start, length)
        whole = self.storages.setdefault(key, found)
        if (whole.dtype, whole.count) != (found.dtype, found.count):
            raise ValueError(f"storage {key} is described in two ways")
        return found

    def fill(self, find: Callable[[Storage], torch.UntypedStorage]) -> dict[int, str]:
        """Give all tensors their values, from the storages that `find` gives; tensor id -> storage key."""
        with torch.no_grad():
            for view in self._views.values():
                tensor = view.tensor
                tensor.set_(find(view.storage), view.offset, view.shape, view.stride)
                tensor.requires_grad_(view.requires_grad)
                if view.flags:
                    torch._utils.set_tensor_metadata(tensor, view.flags)
        return {number: view.storage.key for number, view in self._views.items()}

    def _tensor(self, storage: Any, offset: Any, shape: Any, stride: Any, *rest: Any) -> torch.Tensor:
        requires_grad = rest[0] if rest else False
        return self._view(storage, storage.dtype, (offset, shape, stride), requires_grad, rest[2] if rest[2:] else None)

    def _tensor_of_type(self, storage: Any, offset: Any, shape: Any, stride: Any, *rest: Any) -> torch.Tensor:
        requires_grad, _, dtype, *flags = rest
        return self._view(storage, dtype, (offset, shape, stride), requires_grad, flags[0] if flags else None)

    def _view(self, storage: Any, dtype: Any, place: Any, requires_grad: Any, flags: Any) -> torch.Tensor:
        offset, shape, stride = place
        if not isinstance(storage, Storage) or not isinstance(dtype, torch.dtype) or type(requires_grad) is not bool:
            raise ValueError("a tensor whose storage or type is not one")
        if not is_shape(shape) or not is_shape([offset]) or not _fits(storage, dtype, offset, shape, stride):
            raise ValueError(f"a tensor that lies outside of its storage {storage.key}")
        if flags and not (isinstance(flags, dict) and set(flags) <= FLAGS and set(flags.values()) == {True}):
            raise ValueError("a tensor with unknown properties")
        view = View(
            tensor=torch.empty(0, dtype=dtype),
            storage=storage,
            offset=offset,
            shape=tuple(shape),
            stride=tuple(stride),
            requires_grad=requires_grad,
            flags=flags or {},
        )
        return self._kept(view)

    def _parameter(self, data: Any, requires_grad: Any, _hooks: Any, state: Any = None) -> torch.nn.Parameter:
        view = self._views.get(id(data))
        if view is None or type(requires_grad) is not bool:
            raise ValueError("a parameter that is no tensor")
        parameter = torch.nn.Parameter(torch.empty(0, dtype=data.dtype), requires_grad)
        if state:
            parameter.__dict__.update(checked_attributes(state, torch.nn.Parameter))
        self._kept(replace(view, tensor=parameter, requires_grad=requires_grad))
        return parameter

    def _with_attributes(self, function: Any, kind: Any, arguments: Any, state: Any) -> torch.Tensor:
        if not isinstance(function, Builder) or kind is not torch.Tensor or not isinstance(arguments, tuple):
            raise ValueError("a tensor of an unknown class")
        view = self._views.get(id(function.build(*arguments)))
        if view is None:
            raise ValueError("attributes of something that is no tensor")
        view.tensor.__dict__.update(checked_attributes(state, torch.Tensor))
        return view.tensor

    def _kept(self, view: View) -> torch.Tensor:
        self._views[id(view.tensor)] = view
        return view.tensor


@dataclass(frozen=True)
class StorageType:
    """A class of storages by the type of their elements; None for plain bytes."""

    dtype: torch.dtype | None


def _fits(storage: Storage, dtype: torch.dtype, offset: int, shape: Any, stride: Any) -> bool:
    """Whether all elements of a view lie inside its storage."""
    if not isinstance(stride, list | tuple) or len(stride) != len(shape):
        return False
    if not all(type(step) is int and 0 <= step <= MOST for step in stride):
        return False
    available = storage.length * storage.itemsize // dtype.itemsize
    reach = sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1 if elements(shape) else 0
    return offset + reach <= available


def _plain_names() -> dict[str, Any]:
    storages = {f"{name}Storage": StorageType(dtype) for name, dtype in STORAGES.items()}
    return {
        **{f"{module}.{name}": kind for module in ("torch", "torch.cuda") for name, kind in storages.items()},
        "torch.storage.UntypedStorage": StorageType(None),
        **DTYPES,
        "torch.Tensor": torch.Tensor,
        "torch.Size": Builder(_size),
        "torch.device": Builder(_device),
        "collections.OrderedDict": Builder(_ordered, 3 * SMALL, ENTRY),
        "collections.Counter": Builder(_counter, 3 * SMALL, ENTRY),
        "set": Builder(_set, SET, ENTRY),
        "complex": Builder(_complex),
        "bytearray": Builder(_bytearray, SMALL, 1),
        "_codecs.encode": Builder(_encode, SMALL, 1),
    }


def _size(sizes: Any) -> torch.Size:
    if not is_shape(sizes):
        raise ValueError("a size that is none")
    return torch.Size(sizes)


def _device(kind: Any, index: Any = None) -> torch.device:
    if kind not in ("cpu", "cuda", "mps", "xpu", "meta") or not (index is None or is_shape([index])):
        raise ValueError("an unknown device")
    return torch.device(kind) if index is None else torch.device(kind, min(index, 127))


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((checked_key(key), value) for key, value in pairs)


def _counter(counts: Any = ()) -> Counter[Any]:
    return Counter({checked_key(key): int(value) for key, value in dict(counts).items()})


def _set(items: Any = ()) -> set[Any]:
    return {checked_key(item) for item in items}


def _complex(real: Any, imaginary: Any) -> complex:
    return complex(float(real), float(imaginary))


def _bytearray(data: Any = b"", encoding: Any = "latin-1") -> bytearray:
    return bytearray(data if isinstance(data, bytes) else _encode(data, encoding))


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in LATIN:
        raise ValueError("bytes in an unknown encoding")
    return text.encode("latin-1")
