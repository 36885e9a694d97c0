"""Several forward passes in lockstep: all of them wait at a module until the last has arrived.

Layer by layer calibration needs the inputs of layer i for every batch before any batch may go on to layer i + 1, whose
input depends on what is fitted at layer i. Models are other people's, so nothing is known about how they get from one
layer to the next. Hence every forward pass is a thread that stops in a hook when it reaches the next module. Only one
thread runs at any time, so the order of operations, and with it every result, is the same on every run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from aireprune.calibration.calls import Call
from aireprune.errors import AireError

Arrived = Callable[[nn.Module, Call], None]


@dataclass(frozen=True)
class Stop:
    """A module that all passes have reached, and what each is about to call it with."""

    module: nn.Module
    calls: list[Call]


class _Unwound(BaseException):
    """Ends a forward pass that is not needed any more."""


class _Pass(threading.Thread):
    """One forward pass that stops at modules."""

    def __init__(self, model: nn.Module, call: Call):
        super().__init__(daemon=True)
        self.model, self.call = model, call
        self.go, self.there = threading.Semaphore(0), threading.Semaphore(0)
        self.at: tuple[nn.Module, Call] | None = None
        self.problem: BaseException | None = None
        self.unwanted = self.done = False

    def run(self) -> None:
        self.go.acquire()
        try:
            if not self.unwanted:
                with torch.no_grad():
                    self.call.on(self.model)
        except _Unwound:
            pass
        except BaseException as problem:
            self.problem = problem
        self.done = True
        self.there.release()

    def wait_at(self, module: nn.Module, call: Call) -> None:
        """Called by the pass itself, in a hook."""
        self.at = module, call
        self.there.release()
        self.go.acquire()
        if self.unwanted:
            raise _Unwound

    def advance(self) -> tuple[nn.Module, Call] | None:
        """Let it run to its next stop; None if it has come to its end."""
        if self.done:
            return None
        self.at = None
        self.go.release()
        self.there.acquire()
        if self.problem is not None:
            raise self.problem
        return self.at

    def unwind(self) -> None:
        self.unwanted = True
        if self.is_alive() and not self.done:
            self.go.release()
            self.join()


class Lockstep:
    """Forward passes of a model, one per call, that all stop at the same modules, one after another.

    arrived: told of every arrival before the pass waits, e.g. to move what it carries out of memory.
    """

    def __init__(
        self, model: nn.Module, modules: Sequence[nn.Module], calls: Sequence[Call], arrived: Arrived | None = None
    ):
        self.arrived = arrived
        self.passes = [_Pass(model, call) for call in calls]
        self.hooks = [
            module.register_forward_pre_hook(self._wait, with_kwargs=True, prepend=True) for module in modules
        ]
        for one in self.passes:
            one.start()

    def _wait(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        current = threading.current_thread()
        if isinstance(current, _Pass) and current in self.passes:
            call = Call(args, kwargs)
            if self.arrived is not None:
                self.arrived(module, call)
            current.wait_at(module, call)

    def advance(self) -> Stop | None:
        """The next module that the passes reach; None at their end."""
        stops = [one.advance() for one in self.passes]
        reached = [stop for stop in stops if stop is not None]
        if not reached:
            return None
        if len(reached) < len(stops) or len({id(module) for module, _ in reached}) > 1:
            raise AireError(
                "The calibration batches take different ways through the model, so its layers cannot be fitted one after "
                "another."
            )
        return Stop(reached[0][0], [call for _, call in reached])

    def __enter__(self) -> Lockstep:
        return self

    def __exit__(self, *problem: object) -> None:
        for hook in self.hooks:
            hook.remove()
        for one in self.passes:
            one.unwind()
