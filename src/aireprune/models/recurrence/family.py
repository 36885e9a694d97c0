"""What the recurrent mode has to know about a family of models, and how it reads their modules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

from aireprune.kernels.numba.step_codes import MODES
from aireprune.kernels.step import Norm, Program, Weights

Shape = tuple[int, ...]


class Unknown(Exception):
    """A part of the model is not what the kernels compute: the model's own modules have to run."""


@dataclass(kw_only=True)
class Compiled:
    """A program, and where it keeps the arrays of a state."""

    program: Program
    places: Mapping[str, np.ndarray]
    silent: int | None = None


@dataclass(kw_only=True)
class Memory:
    """The memory of a stream while a program is made: arrays get their places one by one."""

    places: dict[str, np.ndarray] = field(default_factory=dict)
    size: int = 0

    def take(self, name: str, where: np.ndarray, size: int) -> int:
        """Room for `size` numbers, of which the array `name` has those at `where`; returns where it begins."""
        at = self.size
        self.places[name] = at + where
        self.size += size
        return at


class Family(ABC):
    """How models of a family run step by step. Subclasses hold no model: they read the one they are given."""

    @abstractmethod
    def width(self, model: Any) -> int:
        """Features of the stack."""

    @abstractmethod
    def shapes(self, model: Any) -> dict[str, Shape]:
        """The arrays that one stream remembers, by name."""

    @abstractmethod
    def prepare(self, model: Any) -> list[Any]:
        """What `features` needs of the weights, of every layer, and is worth keeping while they do not change."""

    @abstractmethod
    def features(self, model: Any, kept: list[Any], x: Tensor, memory: Mapping[str, Tensor]) -> Tensor:
        """The stack's output (b, L, width) in plain torch; the arrays (b, ..) in memory are brought up to date in place."""

    @abstractmethod
    def head(self, model: Any) -> tuple[nn.Module, nn.Module | None]:
        """The head, and the norm before it."""

    @abstractmethod
    def compiled(self, model: Any, dtype: np.dtype) -> Compiled:
        """The model for the numba kernels; `Unknown` if they do not serve it."""


def numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().resolve_conj().numpy()


def linear(module: nn.Module) -> tuple[np.ndarray, np.ndarray | None]:
    """Weight and bias of a plain linear layer."""
    if type(module) is not nn.Linear:
        raise Unknown
    return numbers(module.weight), None if module.bias is None else numbers(module.bias)


def norm_of(module: nn.Module | None) -> Norm:
    """A norm in evaluation mode as the kernels take it."""
    if module is None or type(module) is nn.Identity:
        return Norm(kind="none", scale=np.zeros(0), offset=np.zeros(0), eps=0.0)
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if weight is None:
        raise Unknown
    scale = numbers(weight)
    offset = np.zeros_like(scale) if bias is None else numbers(bias)
    if type(module) is nn.LayerNorm:
        return Norm(kind="layer", scale=scale, offset=offset, eps=module.eps)
    if type(module) is nn.RMSNorm and module.eps is not None:
        return Norm(kind="rms", scale=scale, offset=offset, eps=module.eps)
    if isinstance(module, nn.BatchNorm1d) and module.running_mean is not None and module.running_var is not None:
        scale = scale / np.sqrt(numbers(module.running_var) + module.eps)
        return Norm(kind="batch", scale=scale, offset=offset - numbers(module.running_mean) * scale, eps=0.0)
    raise Unknown


def frame(family: Family, model: Any, encoder: nn.Module, weights: Weights) -> dict[str, int]:
    """The record of a model: what is around its layers. A head that is no linear layer is left to torch."""
    (matrix, bias), (head, norm) = linear(encoder), family.head(model)
    h, inputs = matrix.shape
    fields = {
        "features": h,
        "width": weights.width(h),
        "inputs": inputs,
        "mode": MODES.index(model.config.mode),
        "encoder_at": weights.product(matrix, bias, columns=None),
        **weights.norm(norm_of(norm)),
    }
    if type(head) is not nn.Linear:
        return {**fields, "answers": h, "answers_width": 0, "head_at": 0}
    answers = head.out_features
    return {
        **fields,
        "answers": answers,
        "answers_width": weights.width(answers),
        "head_at": weights.product(*linear(head)),
    }
