"""A module whose weights are in a file: they are read when a part is called, and given up when others need the room.

So a model that is larger than memory runs, slowly, in as much memory as its largest part takes. Parameters are on
torch's meta device, where they have a shape and no values, until they are read, in single precision.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.arrays import NamedArrays
from aireprune.errors import AireError

CAPACITY = 2**28  # bytes of weights that are kept


class UnmatchedNamesError(AireError):
    """The file has other names than the module, which only the module's own library can translate."""


class Streamed:
    """Reads the weights of a module from named arrays under the same names; tied ones under the name that is there."""

    def __init__(self, module: nn.Module, arrays: NamedArrays, capacity: int = CAPACITY):
        self.module, self.arrays, self.capacity = module, arrays, capacity
        self._parts = _empty_parts(module, arrays)
        self._present: OrderedDict[nn.Module, int] = OrderedDict()  # bytes, the longest unused first
        self._used: Counter[nn.Module] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """While this lasts, calls of the module and of its parts find their weights."""
        hooks: list[Any] = []
        for part in self._parts:
            hooks.append(part.register_forward_pre_hook(lambda part, args: self._take(part)))
            hooks.append(part.register_forward_hook(lambda part, args, output: self._release(part), always_call=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for part in list(self._present):
                self._drop(part)
            self._used.clear()

    @contextmanager
    def loaded(self, name: str) -> Iterator[None]:
        """While this lasts, the weights of one module and of all its parts are there, and what is changed in them stays
        until they are given up."""
        module = self.module.get_submodule(name)
        self._take(module)
        try:
            yield
        finally:
            self._release(module)

    def _whole(self, module: nn.Module) -> list[nn.Module]:
        """A module and its parts: it may read their weights without calling them, as mixers do with their convolution."""
        return [part for part in ((module,) if module is self.module else module.modules()) if part in self._parts]

    def _take(self, module: nn.Module) -> None:
        parts = self._whole(module)
        for part in parts:
            self._used[part] += 1
        for part in parts:
            self._read(part)

    def _release(self, module: nn.Module) -> None:
        for part in self._whole(module):
            self._used[part] -= 1
            if not self._used[part] and self._present.get(part, 0) > self.capacity > 0:
                self._drop(part)  # an embedding or a head, which would take all the room

    def _read(self, part: nn.Module) -> None:
        if part in self._present:
            self._present.move_to_end(part)
            return
        size = 0
        for attribute, name in self._parts[part].items():
            found = np.asarray(self.arrays[name])
            values = torch.from_numpy(found if found.flags.writeable else found.copy())
            tensor = values.float() if values.is_floating_point() else values
            _put(part, attribute, tensor)
            size += tensor.nbytes
        self._present[part] = size
        for other in [other for other in self._present if not self._used[other]]:
            if sum(self._present.values()) <= self.capacity:
                break
            self._drop(other)

    def _drop(self, part: nn.Module) -> None:
        del self._present[part]
        for attribute in self._parts[part]:
            _put(part, attribute, getattr(part, attribute).to("meta"))


def _empty_parts(module: nn.Module, arrays: NamedArrays) -> dict[nn.Module, dict[str, str]]:
    """Modules with tensors of their own that have no values -> attribute -> name among the arrays."""
    names: dict[int, str] = {}  # of tensors that several modules share
    for name, tensor in module.state_dict(keep_vars=True).items():
        if name in arrays.shapes:
            names.setdefault(id(tensor), name)
    found: dict[nn.Module, dict[str, str]] = {}
    for path, part in module.named_modules():
        own = {**part._parameters, **part._buffers}
        for attribute, tensor in own.items():
            if tensor is None or not tensor.is_meta:
                continue
            name = f"{path}.{attribute}" if path else attribute
            known = name if name in arrays.shapes else names.get(id(tensor))
            if known is None or tuple(arrays.shapes[known]) != tuple(tensor.shape):
                raise UnmatchedNamesError(
                    f"The file has no tensor {name} of shape {tuple(tensor.shape)}, which the model needs."
                )
            found.setdefault(part, {})[attribute] = known
    return found


def _put(part: nn.Module, attribute: str, tensor: Tensor) -> None:
    if attribute in part._parameters:
        part._parameters[attribute] = nn.Parameter(tensor, requires_grad=False)
    else:
        part._buffers[attribute] = tensor


@contextmanager
def without_values() -> Iterator[None]:
    """Modules that are made while this lasts have parameters on the meta device; buffers have their values."""
    register = nn.Module.register_parameter

    def register_empty(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        empty = None if parameter is None else nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        register(module, name, empty)

    nn.Module.register_parameter = register_empty  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]
