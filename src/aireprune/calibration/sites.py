"""Where in a model its state space layers are called: found by looking at one forward pass, not by knowing classes.

A layer's tensors say what it computes. Its site is the innermost module around them that is called with the layer's
input and inside which the layer's output is seen, as the module's own output or as what one of its parts is called
with, straight or behind an activation. So a module that computes something else than its tensors say (another
discretisation, a factor, a mask) is found out before anything is fitted to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.arrays import NamedArrays
from aireprune.calibration.calls import Call, answer, is_plain
from aireprune.calibration.head_mixers import open_head_mixer
from aireprune.calibration.mixers import open_mixer
from aireprune.calibration.response import Response, response
from aireprune.errors import AireError
from aireprune.families import Layer, LTIFamily
from aireprune.families.found import FAMILIES

STEPS = 512  # of the sequence that are compared
LEVELS = 3  # modules around a layer's tensors that may be its site
CLOSE, CLOSE_IN_HALF = 2e-3, 3e-2  # relative differences that are rounding
ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda y: y,
    F.gelu,
    lambda y: F.gelu(y, approximate="tanh"),
    F.silu,
    F.relu,
    torch.tanh,
)


@dataclass(frozen=True)
class Site:
    """A layer in a model. module: full name; channels_first: its input is (b, h, L); linear: full name of the dense layer
    behind it that can be fitted; gates: a Mamba or Mamba-2 mixer whose inside is known; steps: of the linear layer's input
    that it was recognised by."""

    layer: Layer[Any]
    module: str
    channels_first: bool = False
    linear: str | None = None
    gates: bool = False
    steps: int = 0

    @property
    def lti(self) -> bool:
        return isinstance(FAMILIES[self.layer.family], LTIFamily)

    def read(self, call: Call) -> Tensor:
        """The layer's input (b, L, h)."""
        u = call.first
        u = u if u.ndim == 3 else u[None]
        return u.transpose(1, 2) if self.channels_first else u


@torch.no_grad()
def find_sites(model: nn.Module, arrays: NamedArrays, layers: Sequence[Layer[Any]], call: Call) -> list[Site]:
    """The sites of a model's layers, in the order in which they are called; layers that are never called are left out."""
    clock = count()
    probes = [_probe(model, arrays, layer, clock) for layer in layers]
    hooks = [hook for probe in probes for hook in probe.hooks()]
    try:
        call.rows(slice(1)).on(model)  # one sequence is enough to recognise a layer
    finally:
        for hook in hooks:
            hook.remove()
    for probe in probes:
        if probe.site is None and probe.entered.keys() - {""}:
            raise AireError(probe.refusal())
    sites = {probe.entered[probe.site.module]: probe.site for probe in probes if probe.site is not None}
    if not sites:
        raise AireError("None of the model's state space layers is called for the calibration inputs.")
    return [sites[time] for time in sorted(sites)]


def _probe(model: nn.Module, arrays: NamedArrays, layer: Layer[Any], clock: Iterator[int]) -> _Probe:
    if isinstance(FAMILIES[layer.family], LTIFamily):
        return _LinearProbe(model, layer, clock, response(layer, arrays))
    return _SelectiveProbe(model, layer, clock)


@dataclass
class _Probe(ABC):
    """Watches the modules around a layer during a forward pass."""

    model: nn.Module
    layer: Layer[Any]
    clock: Iterator[int]
    site: Site | None = field(default=None, init=False)
    entered: dict[str, int] = field(default_factory=dict, init=False)  # candidates that were called, and when

    @abstractmethod
    def candidates(self) -> list[str]:
        """Full names of the modules that may be the site."""

    @abstractmethod
    def looked_at(self, name: str, call: Call, output: Any, inside: Sequence[tuple[str, Tensor]]) -> None:
        """Settle the site if this module is it. inside: what its parts were called with, by full name."""

    @abstractmethod
    def refusal(self) -> str:
        """Why no site was found although candidates were called."""

    def hooks(self) -> Iterator[Any]:
        for name in self.candidates():
            module, inside = self.model.get_submodule(name), []  # type: ignore[var-annotated]
            calls: list[Call] = []
            yield module.register_forward_pre_hook(self._entered(name, calls, inside), with_kwargs=True)
            for path, part in module.named_modules(prefix=name):
                if part is not module and not any(part.children()):
                    yield part.register_forward_pre_hook(_noted(path, inside))
            yield module.register_forward_hook(self._left(name, calls, inside))

    def _entered(self, name: str, calls: list[Call], inside: list[Any]) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            call = Call(args, kwargs)
            calls[:], inside[:] = [call] if all(map(is_plain, call.tensors)) else [], []
            self.entered.setdefault(name, next(self.clock))

        return hook

    def _left(self, name: str, calls: list[Call], inside: list[Any]) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if calls and self.site is None and any(True for _ in calls[0].tensors):
                self.looked_at(name, calls[0], output, list(inside))
            inside.clear()

        return hook


class _LinearProbe(_Probe):
    def __init__(self, model: nn.Module, layer: Layer[Any], clock: Iterator[int], response: Response):
        super().__init__(model, layer, clock)
        self.response = response

    def candidates(self) -> list[str]:
        names = [self.layer.name]
        while names[-1] and len(names) < LEVELS:
            names.append(names[-1].rpartition(".")[0])
        return names

    def looked_at(self, name: str, call: Call, output: Any, inside: Sequence[tuple[str, Tensor]]) -> None:
        given = call.first
        if not self.response.can_be_fitted or given.ndim not in (2, 3) or not given.is_floating_point():
            return
        seen = [(None, answer(output)), *inside]
        for channels_first in (False, True):
            site = Site(self.layer, name, channels_first)
            u = site.read(call)
            if u.shape[-1] != self.response.width:
                continue
            shown = _where_shown(self.response(u.float()), u, seen)
            if shown:
                linear = next((path for path in shown if path and _is_dense(self.model.get_submodule(path))), None)
                self.site = Site(self.layer, name, channels_first, linear, steps=u.shape[1])
                return

    def refusal(self) -> str:
        return (
            f"Layer {self.layer.name} cannot be calibrated: nothing that goes in or comes out of the modules around it is "
            "what its tensors say it puts out (another discretisation or time step, a layout of channels or an activation "
            "that is not known). Without calibrate= it is pruned as its tensors say."
        )


class _SelectiveProbe(_Probe):
    def candidates(self) -> list[str]:
        return [self.layer.name]

    def looked_at(self, name: str, call: Call, output: Any, inside: Sequence[tuple[str, Tensor]]) -> None:
        _refuse_caches(call)
        module = self.model.get_submodule(name)
        linear = f"{name}.out_proj" if name else "out_proj"
        fitted = linear if linear in dict(inside) and isinstance(self.model.get_submodule(linear), nn.Linear) else None
        mixer = self._opened(module)
        gates = False
        if mixer is not None and call.first.ndim == 3:
            mine = mixer.output(mixer.signals(call.first, call.named(module, "attention_mask")))
            gates = _same(mine, answer(output))
        self.site = Site(self.layer, name, linear=fitted, gates=gates)

    def _opened(self, module: nn.Module) -> Any:
        """The module as a mixer, whose `signals` and `output` can be compared with what it does."""
        if self.layer.family == "mamba2":
            return open_head_mixer(module, self.layer)
        return open_mixer(module) if self.layer.groups == 1 else None

    def refusal(self) -> str:
        return f"Layer {self.layer.name} is called without a tensor, so it cannot be calibrated."


def _noted(path: str, inside: list[tuple[str, Tensor]]) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], Tensor) and is_plain(args[0]):
            inside.append((path, args[0]))

    return hook


def _where_shown(y: Tensor, u: Tensor, seen: Sequence[tuple[str | None, Tensor]]) -> list[str | None]:
    """The names under which the output y, or with the input added, is seen, straight or behind an activation."""
    y, u = y[:, :STEPS], u[:, :STEPS]
    wanted = [activation(y) for activation in ACTIVATIONS] + ([y + u] if y.shape == u.shape else [])
    return [name for name, tensor in seen if any(_same(one, view) for view in _views(tensor) for one in wanted)]


def _views(tensor: Tensor) -> list[Tensor]:
    if tensor.ndim == 2:
        return [tensor[None]]
    return [tensor, tensor.transpose(1, 2)] if tensor.ndim == 3 else []


def _same(a: Tensor, b: Tensor) -> bool:
    b = b[:, : a.shape[1]]
    if a.shape != b.shape or not b.is_floating_point():
        return False
    tolerance = CLOSE if b.dtype in (torch.float32, torch.float64) else CLOSE_IN_HALF
    return float((a.double() - b.double()).norm()) <= tolerance * float(b.double().norm())


def _is_dense(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or (
        isinstance(module, nn.Conv1d) and module.kernel_size == (1,) and module.groups == 1
    )


def _refuse_caches(call: Call) -> None:
    given = [value for value in (*call.args, *call.kwargs.values()) if hasattr(value, "update_recurrent_state")]
    if given:
        raise AireError(
            "The model keeps a cache of past tokens for the calibration inputs; give batches with use_cache=False."
        )
