"""What a model, or one of its modules, is called with and answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.errors import AireError


@dataclass(frozen=True)
class Call:
    """Positional and keyword arguments."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def on(self, module: nn.Module) -> Any:
        """The answer of a module to this call."""
        return module(*self.args, **self.kwargs)

    @property
    def tensors(self) -> Iterator[Tensor]:
        """Every tensor among the arguments, in lists, tuples and mappings too."""
        return _tensors((*self.args, *self.kwargs.values()))

    @property
    def first(self) -> Tensor:
        """The first argument that is a tensor."""
        found = next(self.tensors, None)
        if found is None:
            raise AireError("A batch to calibrate with holds no tensor.")
        return found

    def named(self, module: nn.Module, name: str) -> Any:
        """The argument that the module's forward calls `name`; None if it has none."""
        try:
            given = inspect.signature(type(module).forward).bind(module, *self.args, **self.kwargs).arguments
        except TypeError:
            given = dict(self.kwargs)
        return given.get(name, self.kwargs.get(name))

    def rows(self, part: slice) -> Call:
        """The same call for some of its sequences; arguments without one row per sequence stay as they are."""
        count = len(self.first)
        return Call(
            tuple(_rows(a, part, count) for a in self.args), {k: _rows(a, part, count) for k, a in self.kwargs.items()}
        )


def answer(output: Any) -> Tensor:
    """The tensor that a model's output is about: its logits, itself, or its first tensor."""
    found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(found, Tensor):
        values = output.values() if isinstance(output, Mapping) else output if isinstance(output, list | tuple) else ()
        found = next(_tensors(tuple(values)), None)
    if found is None:
        raise AireError(f"The model answers with a {type(output).__name__} that holds no tensor.")
    return found


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def _rows(value: Any, part: slice, count: int) -> Any:
    if isinstance(value, Tensor) and value.ndim and len(value) == count:
        return value[part]
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_rows(entry, part, count) for entry in value)
    return value


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor can be kept; inside torch.vmap it stands for a batch and cannot."""
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
