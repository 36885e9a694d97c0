"""One token through a whole Mamba or Mamba-2 model on the CPU: its weights as the numba kernels take them, and the call.

Matrices stay where the model has them, in single precision, or are copied in 8 bits; all else is gathered in one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.numba.decode_codes import BLOCK, MAMBA, MAMBA2, MODEL

KINDS = {"float32": torch.float32, "int8": torch.int8}
LARGEST = 127  # in 8 bits
LINE = 16  # numbers in a cache line


class DecodeWeights:
    """Weights of a model while a program is made. kind: of the matrices, one of KINDS."""

    def __init__(self, kind: str):
        self.kind = kind
        self._held: list[Tensor] = []
        self._matrices: dict[int, tuple[int, int]] = {}
        self._parts: list[np.ndarray] = []
        self._size = 0

    def matrix(self, name: str, weight: Tensor) -> dict[str, int]:
        """The fields of a record for a matrix (n, k), which is shared if it was added before."""
        if id(weight) not in self._matrices:
            self._held.append(weight)
            stored, scale = (weight, None) if self.kind == "float32" else rounded(weight)
            self._matrices[id(weight)] = (self._address(stored), 0 if scale is None else self._address(scale))
        address, scale_address = self._matrices[id(weight)]
        return {name: address, f"{name}_scale": scale_address}

    def add(self, *values: Tensor | float) -> int:
        """Small weights behind one another; returns where they begin."""
        at = self._size
        for value in values:
            part = np.ravel(np.asarray(value if isinstance(value, float) else value.detach().float(), np.float32))
            self._parts.append(part)
            self._size += part.size
        fill = -self._size % LINE
        self._parts.append(np.zeros(fill, np.float32))
        self._size += fill
        return at

    def all(self) -> tuple[np.ndarray, tuple[Tensor, ...]]:
        """The small weights, and the tensors that addresses point into."""
        return np.concatenate(self._parts), tuple(self._held)

    def _address(self, tensor: Tensor) -> int:
        whole = tensor.detach().contiguous()
        self._held.append(whole)
        return whole.data_ptr()


def rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix (n, k) in 8 bits, and factors (n, blocks): the largest number of a block is 127 times its factor."""
    n, k = weight.shape
    blocks = F.pad(weight.detach().float(), (0, -k % BLOCK)).view(n, -1, BLOCK)
    scale = blocks.abs().amax(-1) / LARGEST
    stored = torch.round(blocks / scale.clamp(min=torch.finfo(torch.float32).tiny)[..., None]).to(torch.int8)
    return stored.view(n, -1)[:, :k].contiguous(), scale


@dataclass(frozen=True, kw_only=True)
class DecodeProgram:
    """A model for `decoder_run`. memory: numbers that a sequence remembers. held: tensors that addresses point into."""

    model: np.ndarray
    layers: np.ndarray
    small: np.ndarray
    kind: str
    memory: int
    held: tuple[Tensor, ...]


def make_decode_program(
    model: Mapping[str, int], record: np.dtype, layers: Sequence[Mapping[str, int]], weights: DecodeWeights, memory: int
) -> DecodeProgram:
    """record: of the family, one of `aireprune.kernels.numba.decode_codes`."""
    small, held = weights.all()
    return DecodeProgram(
        model=_records(MODEL, [model]),
        layers=_records(record, layers),
        small=small,
        kind=weights.kind,
        memory=memory,
        held=held,
    )


def _records(record: np.dtype, found: Sequence[Mapping[str, int]]) -> np.ndarray:
    assert record.names is not None
    return np.array([tuple(fields[name] for name in record.names) for fields in found], record)


def decoder_run(program: DecodeProgram, memory: np.ndarray, logits: np.ndarray) -> Any:
    """A function of a token (int): it brings the memory forward and fills logits (vocabulary,), without allocating."""
    model, layers = program.model, program.layers
    features, parts = int(model["features"][0]), int(model["parts"][0])
    kind = torch.empty(0, dtype=KINDS[program.kind]).numpy()
    given = (model, layers, kind, program.small, memory)
    sums = np.zeros((parts, features), np.float32)
    channels = int(layers["channels"].max())
    if layers.dtype == MAMBA:
        from aireprune.kernels.numba.decode_mamba import decode

        low = int((layers["rank"] + 2 * layers["states"]).max())
        own = np.zeros((parts, 2 * features + low + 2 * channels + LINE), np.float32)
        gates, xz = np.zeros((parts, low), np.float32), np.zeros((2, channels), np.float32)
        scratch: tuple[np.ndarray, ...] = (own, sums, np.zeros(parts, np.float32), gates, xz)
        return lambda token: decode(token, *given, *scratch, logits)
    assert layers.dtype == MAMBA2
    from aireprune.kernels.numba.decode_mamba2 import decode as decode2

    values, states = int(layers["values"].max()), int((layers["groups"] * layers["states"]).max())
    room = max(features + channels + 2 * values, 2 * states + channels, parts)
    own = np.zeros((parts, features + room + LINE), np.float32)
    row = np.zeros(2 * (channels + values) + int(layers["heads"].max()), np.float32)
    scratch = (own, sums, np.zeros(parts, np.float32), row)
    return lambda token: decode2(token, *given, *scratch, logits)
