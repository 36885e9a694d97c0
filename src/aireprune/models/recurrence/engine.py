"""Who computes the steps of a model: numba kernels on the CPU, or the model's own modules in plain torch.

An engine is made for the weights as they are, and kept until they change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from aireprune.errors import AireError
from aireprune.kernels.numba.step_codes import TOKENS
from aireprune.kernels.step import Program, Streams, advance
from aireprune.models.recurrence.family import Family, Unknown
from aireprune.models.recurrence.refusals import check_model
from aireprune.models.recurrence.state import Layout, State, consecutive
from aireprune.models.recurrence.watch import Watch


class Engine(ABC):
    """dtype: of numbers that go in and answers that come out."""

    layout: Layout
    watch: Watch
    dtype: torch.dtype

    @abstractmethod
    def buffers(self, batch: int, steps: int) -> Any:
        """What a call of this size works in, and can be used again."""

    @abstractmethod
    def run(self, model: Any, x: Tensor, state: State, buffers: Any) -> Tensor:
        """x (b, L, d_input) or tokens (b, L) -> the answer; the state is brought up to date in place.

        The answer may be part of the buffers.
        """


@dataclass(frozen=True)
class Buffers:
    answers: Tensor  # (b, classes), or (b, L, tokens)
    rows: np.ndarray  # the same memory, (b, classes) or (b L, tokens)
    room: np.ndarray


class NumbaEngine(Engine):
    """One call of a kernel for a whole model and chunk; nothing is allocated but an answer of another size."""

    def __init__(self, program: Program, layout: Layout, watch: Watch, head: nn.Module | None):
        self.program, self.layout, self.watch, self.head, self.dtype = program, layout, watch, head, layout.dtype
        record = program.model[0]
        self._every, self._answers = int(record["mode"]) == TOKENS, int(record["answers"])

    def buffers(self, batch: int, steps: int) -> Buffers:
        shape = (batch, steps, self._answers) if self._every else (batch, self._answers)
        answers = torch.empty(shape, dtype=self.layout.dtype)
        dtype, workers = self.program.weights.dtype, self.program.workers(batch, steps)
        return Buffers(
            answers, answers.numpy().reshape(-1, self._answers), np.empty((workers, self.program.room), dtype)
        )

    def run(self, model: Any, x: Tensor, state: State, buffers: Buffers) -> Tensor:
        steps = x.shape[1]
        rows = (x.detach() if x.is_contiguous() else x.detach().contiguous()).reshape(-1, *x.shape[2:])
        streams = Streams(memory=state.memory.numpy(), pooled=state.pooled.numpy(), seen=state.seen.numpy())
        if not advance(self.program, rows.numpy(), steps, streams, buffers.room, buffers.rows):
            known = int(self.program.model[0]["inputs"])
            raise AireError(f"A token is not one of the model's {known}: found {int(x.min())} to {int(x.max())}.")
        return buffers.answers if self.head is None else self.head(buffers.answers)


class TorchEngine(Engine):
    """The model's own modules, on any device and in any precision."""

    def __init__(self, family: Family, model: Any, layout: Layout, watch: Watch):
        self.family, self.layout, self.watch, self.dtype = family, layout, watch, next(model.parameters()).dtype
        self._kept = family.prepare(model)

    def buffers(self, batch: int, steps: int) -> None:
        return None

    def run(self, model: Any, x: Tensor, state: State, buffers: None) -> Tensor:
        z = self.family.features(model, self._kept, x, state.views())
        state.seen += x.shape[1]
        if model.config.mode == "last":
            z = z[:, -1]
        elif model.config.mode == "pool":
            state.pooled += z.sum(1, dtype=torch.float64)
            z = (state.pooled / state.seen[:, None]).to(z.dtype)
        head, norm = self.family.head(model)
        answer: Tensor = head(z if norm is None else norm(z))
        return answer


_ENGINES: WeakKeyDictionary[nn.Module, Engine] = WeakKeyDictionary()


def engine_of(model: Any) -> Engine:
    """The engine for the model as it is; an error if it has no recurrent mode."""
    engine = _ENGINES.get(model)
    if engine is None or not engine.watch.unchanged():
        check_model(model)
        engine = _ENGINES[model] = make_engine(model)
    return engine


@torch.no_grad()
def make_engine(model: Any, by_modules: bool = False) -> Engine:
    """by_modules: in plain torch, even where kernels could do it."""
    family: Family = model.recurrence
    watch, first = Watch(model), next(model.parameters())
    pooled = family.width(model) if model.config.mode == "pool" else 0
    states = torch.promote_types(first.dtype, torch.float32)
    about: dict[str, Any] = {"pooled": pooled, "dtype": states, "device": first.device}
    if not by_modules and _is_plain(model):
        try:
            found = family.compiled(model, np.dtype(np.float32))
        except Unknown:
            pass
        else:
            layout = Layout(places=found.places, size=found.program.memory, silent=found.silent, **about)
            head = family.head(model)[0]
            return NumbaEngine(found.program, layout, watch, head if type(head) is not nn.Linear else None)
    places, size = consecutive(family.shapes(model))
    return TorchEngine(family, model, Layout(places=places, size=size, **about), watch)


def _is_plain(model: nn.Module) -> bool:
    """Whether all parts are torch's or ours, without hooks, in single precision and on the CPU."""
    tensors = [*model.parameters(), *(buffer for buffer in model.buffers() if buffer.is_floating_point())]
    return (
        all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
        and not (torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks)
        and all(_is_stock(part) for part in model.modules())
    )


def _is_stock(part: nn.Module) -> bool:
    """Whether its forward is the one of its class, which is torch's or ours."""
    known = type(part).__module__.startswith(("torch.nn.modules.", "aireprune.models."))
    return known and not (part._forward_hooks or part._forward_pre_hooks or "forward" in part.__dict__)
