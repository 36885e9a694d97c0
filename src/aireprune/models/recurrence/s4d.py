"""S4D step by step. A stream remembers the modes of every layer, (2, h, N): real parts, imaginary parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.kernels.numba.step_codes import S4D
from aireprune.kernels.s4d import pack
from aireprune.kernels.step import Needs, Weights, make_program
from aireprune.models.recurrence.family import Compiled, Family, Memory, Shape, frame, norm_of, numbers

STATE = "s4_layers.{}.state"


class S4DFamily(Family):
    def width(self, model: Any) -> int:
        return int(model.config.h)

    def shapes(self, model: Any) -> dict[str, Shape]:
        return {
            STATE.format(number): (2, *layer.kernel.discrete()[0].shape) for number, layer in enumerate(model.s4_layers)
        }

    def prepare(self, model: Any) -> list[tuple[Tensor, Tensor]]:
        """lam and w (h, N) of every layer."""
        kind = torch.complex128 if model.encoder.weight.dtype == torch.float64 else torch.complex64
        found = [layer.kernel.discrete() for layer in model.s4_layers]
        return [(lam.to(kind), w.to(kind)) for lam, w in found]

    def features(
        self, model: Any, kept: list[tuple[Tensor, Tensor]], x: Tensor, memory: Mapping[str, Tensor]
    ) -> Tensor:
        z: Tensor = model.encode(x)
        for number, (layer, norm) in enumerate(zip(model.s4_layers, model.norms, strict=True)):
            u, (lam, w) = norm(z) if model.config.prenorm else z, kept[number]
            held = memory[STATE.format(number)]
            state, outputs = torch.complex(held[:, 0], held[:, 1]), []
            for driven in u.unbind(1):
                state = lam * state + driven[..., None]
                outputs.append((w * state).real.sum(-1))
            held.copy_(torch.stack([state.real, state.imag], 1))
            y = torch.stack(outputs, 1).to(u.dtype) + u * layer.D
            z = z + model.drop(F.glu(layer.output_linear(layer.drop(F.gelu(y))), dim=-1))
            z = z if model.config.prenorm else norm(z)
        return z

    def head(self, model: Any) -> tuple[nn.Module, nn.Module | None]:
        return model.decoder, None

    def compiled(self, model: Any, dtype: np.dtype) -> Compiled:
        weights, memory, indices = Weights(dtype), Memory(), Indices()
        fields, layers = frame(self, model, model.encoder, weights), []
        memory.size = weights.lanes  # the first place is for modes that are silent
        for number, (layer, norm) in enumerate(zip(model.s4_layers, model.norms, strict=True)):
            about = {"before": int(model.config.prenorm), **weights.norm(norm_of(norm))}
            modes = _modes(layer, weights, memory, indices, STATE.format(number))
            layers.append({**about, **modes, **_mixing(layer, weights)})
        rows = [5 * fields["width"] + 2 * weights.lanes] * len(layers)
        needs = Needs(memory=memory.size, rows=rows, places=indices.parts)
        return Compiled(program=make_program(fields, S4D, layers, weights, needs), places=memory.places, silent=0)


class Indices:
    """Integers of all layers, one behind the other."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []

    def add(self, *values: np.ndarray) -> int:
        at = sum(part.size for part in self.parts)
        self.parts += [part.astype(np.int64).reshape(-1) for part in values]
        return at


def _modes(layer: Any, weights: Weights, memory: Memory, indices: Indices, name: str) -> dict[str, int]:
    """The modes that are not silent, in groups of as many channels as a vector has lanes."""
    lam, w = (part.detach().numpy() for part in layer.kernel.discrete())
    parts = tuple(np.ascontiguousarray(part, weights.dtype) for part in (lam.real, lam.imag, w.real, w.imag))
    packed = pack(parts, weights.lanes, drop_silent=True)
    channel = packed.channel.astype(np.int64).reshape(-1)
    channel[len(lam) :] = np.arange(len(lam), channel.size)  # lanes of no channel read and write what pads a row
    heard = (parts[2] != 0) | (parts[3] != 0)
    where = (2 * packed.row + np.arange(2)[:, None, None]) * weights.lanes + packed.lane
    at = memory.take(name, where, 2 * weights.lanes * len(packed.params))
    memory.places[name] = np.where(heard, memory.places[name], 0)
    return {
        "state_at": at,
        "groups": len(packed.channel),
        "rows": len(packed.params),
        "modes_at": weights.add(packed.params),
        "places_at": indices.add(packed.start, channel),
    }


def _mixing(layer: Any, weights: Weights) -> dict[str, int]:
    """Skip weights, and the product that mixes channels."""
    mixing, h = layer.output_linear[0], len(layer.D)
    bias = None if mixing.bias is None else numbers(mixing.bias)
    matrix = numbers(mixing.weight)[:, :, 0]
    return {
        "skip_at": weights.add(weights.vector(numbers(layer.D))),
        "mixing_at": weights.product(matrix, bias, rows=(h, h)),
    }
