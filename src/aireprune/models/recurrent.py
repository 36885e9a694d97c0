"""The recurrent mode of our models: one step at a time, or chunks of any size, equal to the whole forward pass.

    state = model.initial_state(batch=2)
    y, state = model.step(x_t, state)              # x_t (b, d_input), or tokens (b,)
    for y in model.stream(chunks): ...             # chunks (b, L, d_input), or tokens (b, L), of any lengths
    stepper = model.stepper(batch=2)               # in place, without allocating: y = stepper.step(x_t)

A model that answers every step (mode tokens) answers (b, tokens) at a step and (b, L, tokens) for a chunk. One that
answers a sequence gives its running answer (b, classes): what it would say if the sequence ended here, so the last
answer is that of the forward pass. No gradients are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from aireprune.errors import AireError
from aireprune.models.recurrence.engine import Engine, engine_of
from aireprune.models.recurrence.family import Family
from aireprune.models.recurrence.refusals import fitting
from aireprune.models.recurrence.state import Arrays, State, restored


class Recurrent:
    """Mixin of our models. `recurrence`: how the family runs step by step."""

    recurrence: ClassVar[Family]

    def initial_state(self, batch: int = 1) -> State:
        """The state of `batch` streams that have not begun."""
        if batch < 1:
            raise AireError(f"batch={batch} is no number of streams.")
        return State(engine_of(self).layout, batch)

    def restore_state(self, arrays: Arrays) -> State:
        """The state that `State.arrays` gave, from arrays that were saved and loaded by any means."""
        return restored(engine_of(self).layout, arrays)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One step of every stream, x (b, d_input) or tokens (b,): the answer, and the state after it.

        The given state is left as it is.
        """
        stepper = Stepper(self, state)
        return stepper.step(x), stepper.state

    def stream(self, chunks: Iterable[Tensor], state: State | None = None) -> Stream:
        """The answers to chunks (b, L, d_input) or (b, L) as they come. Begins anew, or goes on from a state."""
        return Stream(self, chunks, state)

    def stepper(self, batch: int = 1, state: State | None = None) -> Stepper:
        """Streams that are brought forward in place. Begins anew, or goes on from a copy of a state."""
        return Stepper(self, self.initial_state(batch) if state is None else state)


class Stepper:
    """Streams of a model whose state is brought forward in place; after the first step nothing is allocated.

    Answers are overwritten by the next call of the same size. state: where the streams are, a copy.
    """

    def __init__(self, model: Any, state: State):
        self._model, self._engine = model, engine_of(model)
        laid_out = state.laid_out(self._engine.layout)
        self._state = laid_out.copy() if laid_out is state else laid_out
        self._buffers: dict[int, Any] = {}

    @property
    def state(self) -> State:
        return self._state.copy()

    def step(self, x: Tensor) -> Tensor:
        """x (b, d_input) or tokens (b,) -> (b, classes)."""
        answer = self._advance(x, chunk=False)
        return answer[:, 0] if self._model.config.mode == "tokens" else answer

    def chunk(self, x: Tensor) -> Tensor:
        """x (b, L, d_input) or tokens (b, L) -> (b, classes), or (b, L, tokens) in mode tokens."""
        return self._advance(x, chunk=True)

    def _advance(self, x: Tensor, chunk: bool) -> Tensor:
        engine, state = self._current(), self._state
        x = fitting(x, state.batch, self._model.config.d_input, engine.dtype, chunk)
        steps = x.shape[1]
        if steps not in self._buffers:
            self._buffers = {steps: engine.buffers(state.batch, steps)}
        with torch.no_grad():
            return engine.run(self._model, x, state, self._buffers[steps])

    def _current(self) -> Engine:
        """The engine for the weights as they are."""
        if not self._engine.watch.unchanged():
            self._engine = engine_of(self._model)
            self._state, self._buffers = self._state.laid_out(self._engine.layout), {}
        return self._engine


class Stream(Iterator[Tensor]):
    """The answers to chunks, one by one. state: where the streams are after the chunks so far."""

    def __init__(self, model: Any, chunks: Iterable[Tensor], state: State | None):
        self._model, self._chunks = model, iter(chunks)
        self._stepper = None if state is None else Stepper(model, state)

    def __next__(self) -> Tensor:
        chunk = next(self._chunks)
        if self._stepper is None:
            self._stepper = Stepper(self._model, self._model.initial_state(max(len(chunk), 1)))
        return self._stepper.chunk(chunk).clone()

    @property
    def state(self) -> State:
        if self._stepper is None:
            raise AireError("The stream has no state before its first chunk.")
        return self._stepper.state
