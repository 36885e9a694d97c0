"""S5 and LRU step by step. A stream remembers the modes of every layer, (2, P): real parts, imaginary parts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.kernels.numba.step_codes import ACTIVATIONS, DIAGONAL
from aireprune.kernels.step import Needs, Weights, make_program
from aireprune.models.recurrence.family import Compiled, Family, Memory, Shape, frame, linear, norm_of, numbers

STATE = "layers.{}.state"


class DiagonalFamily(Family):
    def width(self, model: Any) -> int:
        return int(model.config.h)

    def shapes(self, model: Any) -> dict[str, Shape]:
        return {STATE.format(number): (2, block.seq.modes) for number, block in enumerate(model.layers)}

    def prepare(self, model: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Poles (P,), input matrix (P, h) and readout (h, P) of every layer, discrete."""
        double = model.encoder.weight.dtype == torch.float64
        return [_discrete(block.seq, torch.complex128 if double else torch.complex64) for block in model.layers]

    def features(
        self, model: Any, kept: list[tuple[Tensor, Tensor, Tensor]], x: Tensor, memory: Mapping[str, Tensor]
    ) -> Tensor:
        z: Tensor = model.encode(x)
        for number, (block, (lam, b, c)) in enumerate(zip(model.layers, kept, strict=True)):
            u = block.norm(z) if block.prenorm else z
            held = memory[STATE.format(number)]
            state, outputs = torch.complex(held[:, 0], held[:, 1]), []
            for driven in (u.to(b.dtype) @ b.T).unbind(1):
                state = lam * state + driven
                outputs.append((state @ c.T).real)
            held.copy_(torch.stack([state.real, state.imag], 1))
            z = z + block.gate(torch.stack(outputs, 1).to(u.dtype) + u * block.seq.D)
            z = z if block.prenorm else block.norm(z)
        return z

    def head(self, model: Any) -> tuple[nn.Module, nn.Module | None]:
        return model.decoder, None

    def compiled(self, model: Any, dtype: np.dtype) -> Compiled:
        weights, memory, rows = Weights(dtype), Memory(), []
        fields, layers = frame(self, model, model.encoder, weights), []
        for number, block in enumerate(model.layers):
            layers.append(_layer(block, weights, memory, STATE.format(number)))
            rows.append((3 + layers[-1]["gates"]) * fields["width"] + 2 * layers[-1]["modes"])
        needs = Needs(memory=memory.size, rows=rows)
        return Compiled(program=make_program(fields, DIAGONAL, layers, weights, needs), places=memory.places)


def _discrete(layer: Any, kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Poles, input matrix and readout with its factor, discretised in double precision."""
    if layer.modes == 0:
        h = len(layer.D)
        return (
            layer.D.new_zeros(0, dtype=kind),
            layer.D.new_zeros(0, h, dtype=kind),
            layer.D.new_zeros(h, 0, dtype=kind),
        )
    exact = copy.deepcopy(layer).double()
    lam, b = exact.discrete()
    c = layer.readout_scale * torch.view_as_complex(exact.readouts()[0].contiguous())
    return lam.to(kind), b.to(kind), c.to(kind)


def _layer(block: Any, weights: Weights, memory: Memory, name: str) -> dict[str, int]:
    lam, b, c = (part.numpy() for part in _discrete(block.seq, torch.complex128))
    p, h = b.shape
    both, gates = (p, p), [linear(getattr(block, part)) for part in ("out1", "out2") if hasattr(block, part)]
    matrix = np.concatenate([np.zeros((0, h)), *(weight for weight, _ in gates)])
    bias = np.concatenate([np.zeros(0), *(np.zeros(h) if shift is None else shift for _, shift in gates)])
    skip = numbers(block.seq.D)
    return {
        "before": int(block.prenorm),
        **weights.norm(norm_of(block.norm)),
        "state_at": memory.take(name, weights.places(*both).reshape(2, p), weights.width(*both)),
        "modes": weights.width(p),
        "gates": len(gates),
        "activation": ACTIVATIONS.index(block.activation),
        "poles_at": weights.add(weights.vector(np.concatenate([lam.real, lam.imag]), *both)),
        "b_at": weights.product(np.concatenate([b.real, b.imag]), None, rows=both),
        "c_at": weights.product(np.concatenate([c.real, -c.imag], 1), None, columns=both),
        "skip_at": weights.add(weights.vector(skip)),
        "gate_at": weights.product(matrix, bias, rows=[h] * len(gates)),
    }
