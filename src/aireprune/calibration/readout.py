"""Calibrated readouts: one walk through two models that fits every reduced layer to what the full layer put out.

Both models run in lockstep, the full one a layer ahead. A layer of the full model reads its own activation and puts out
the target. The reduced layer reads the activation of the reduced model, whose earlier layers are calibrated already, so
that it also makes up for what they got wrong. Its readout is linear in the weights, and is solved for by ridge least
squares towards the present weights (`aireprune.calibration.moments`). No labels, no gradients.

    linear layers    C and D (`readouts`), then the dense layer behind that mixes channels (`linear`)
    Mamba            W_C and D (`selective`), then out_proj
    Mamba-2, others  the rows that make B and C, if asked for (`rows`); out_proj
    batch norms      statistics (`norms`)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.calibration.calls import Call
from aireprune.calibration.inputs import Inputs, held_out
from aireprune.calibration.linear import channels_last, fit_linear, input_of, matrix, output_of
from aireprune.calibration.lockstep import Lockstep, Stop
from aireprune.calibration.mixers import Mixer, Signals
from aireprune.calibration.norms import batch_norms, match_statistics
from aireprune.calibration.readouts import fit_readout
from aireprune.calibration.response import response
from aireprune.calibration.rows import RowProblem, fit_rows
from aireprune.calibration.running import running
from aireprune.calibration.selective import fit_gates, free_directions
from aireprune.calibration.sites import Site
from aireprune.calibration.spill import MEMORY, Spill
from aireprune.calibration.subject import Opened, Subject
from aireprune.calibration.team import share, total_number
from aireprune.errors import AireError
from aireprune.families import Layer


class Progress:
    """What a walk asks and tells on its way; this one knows of nothing done, and of weights that are in memory."""

    def is_done(self, name: str) -> bool:
        """Whether a module was fitted by an earlier run already."""
        return False

    def finished(self, name: str) -> None:
        """A module has been fitted."""

    def weights(self, name: str) -> AbstractContextManager[Any]:
        """While this lasts, the weights of a module are in memory in both models."""
        return nullcontext()


@torch.no_grad()
def calibrate(
    full: Subject,
    reduced: Opened,
    inputs: Inputs,
    memory: int = MEMORY,
    rows: bool = False,
    progress: Progress | None = None,
) -> nn.Module:
    """A copy of the reduced model with readouts fitted to the full model on unlabelled inputs.

    memory: bytes of activations that stay in memory; beyond, they are in files. rows: those that make B and C of Mamba-2
    layers are fitted as well, by gradient descent. progress: is told of every module that is fitted.
    """
    check_pair(full, reduced)
    student: nn.Module = copy.deepcopy(reduced.module)
    with running(full.module, student):
        Walk(full, student, reduced.layers, inputs, memory, rows).go(progress or Progress())
    return student


def check_pair(full: Subject | Opened, reduced: Opened) -> None:
    """Raise unless one is a reduction of the other: the same class, the same layers by name and kind."""
    mine, its = ([(layer.name, layer.family) for layer in one.layers] for one in (full, reduced))
    if type(full.module) is not type(reduced.module) or mine != its:
        raise AireError(
            f"A {type(reduced.module).__name__} with {len(its)} state space layers is not a reduction of a "
            f"{type(full.module).__name__} with {len(mine)}."
        )


class Walk:
    """The full model and the reduced one, side by side."""

    def __init__(
        self,
        full: Subject,
        student: nn.Module,
        layers: Sequence[Layer[Any]],
        inputs: Inputs,
        memory: int,
        rows: bool = False,
    ):
        self.full, self.student, self.inputs, self.rows = full, student, inputs, rows
        self.sites = {site.module: site for site in full.sites}
        self.layers = {layer.name: layer for layer in layers}
        self.norms = batch_norms(student)
        self.numbers = share(range(inputs.batches))  # of the batches that this process runs
        self.spill = Spill(len(self.numbers), memory)

    @property
    def held(self) -> list[bool]:
        """Whether a batch judges what the others suggest, for all that this process runs."""
        return [held_out(number) for number in self.numbers]

    @torch.no_grad()
    def go(self, progress: Progress) -> None:
        models = (self.full.module, self.student)
        names = [*self.sites, *(name for name in self.norms if name not in self.sites)]
        calls = [self.inputs[number] for number in self.numbers]
        hooks = [hook for model in models for hook in self.spill.watch(model, names)]
        modules = [[model.get_submodule(name) for name in names] for model in models]
        known = {id(module): name for module, name in zip(modules[0], names, strict=True)}
        left = set(names)
        try:
            with (
                Lockstep(models[0], modules[0], calls, self.spill.arrived) as ahead,
                Lockstep(models[1], modules[1], calls, self.spill.arrived) as behind,
            ):
                stop = ahead.advance()
                while stop is not None and (own := behind.advance()) is not None:
                    name = known[id(stop.module)]
                    last, new = left == {name}, name in left  # a module is called again where weights are shared
                    to_do = new and not progress.is_done(name)
                    with progress.weights(name):
                        before, (stop, outputs) = stop, self._outputs(ahead, stop, name, last)
                    left.discard(name)
                    if to_do:
                        with progress.weights(name):
                            self._fit(name, before, own, outputs)
                            progress.finished(name)
                    if not left:
                        break
        finally:
            for hook in hooks:
                hook.remove()

    def _outputs(self, ahead: Lockstep, stop: Stop, name: str, last: bool) -> tuple[Stop | None, list[Tensor]]:
        """Where the full model gets to next, and what the dense layer of the site puts out on the way, batch by batch."""
        linear = self.sites[name].linear if name in self.sites else None
        dense = None if linear is None else self.full.module.get_submodule(linear)
        if last:  # nothing behind it is wanted, and the head of a language model is large
            return None, [] if dense is None else [output_of(dense, stop.module, call) for call in stop.calls]
        outputs: list[Tensor] = []
        if dense is None:
            return ahead.advance(), outputs
        hook = dense.register_forward_hook(
            lambda module, args, output: outputs.append(self.spill.kept(channels_last(module, output)))
        )
        try:
            return ahead.advance(), outputs
        finally:
            hook.remove()

    def _fit(self, name: str, stop: Stop, own: Stop, outputs: Sequence[Tensor]) -> None:
        if name not in self.sites:
            match_statistics(batch_norms(self.full.module)[name], self.norms[name], stop.calls, own.calls)
            return
        site = self.sites[name]
        step = _Step(self, site, self.layers[site.layer.name], stop.calls, own.calls, outputs)
        if site.lti:
            step.fit_readout()
        if site.gates and site.layer.family == "mamba" and site.linear is not None:
            step.fit_gates()
        if self.rows and site.layer.family == "mamba2" and site.linear is not None:
            step.fit_rows(site.linear)
        if site.linear is not None:
            step.fit_linear(site.linear)


@dataclass(frozen=True)
class _Step:
    """A site, the layer of the reduced model there, what both models call it with, and what the full one's dense layer
    puts out."""

    walk: Walk
    site: Site
    layer: Layer[Any]
    full_calls: Sequence[Call]
    calls: Sequence[Call]
    outputs: Sequence[Tensor]

    @property
    def module(self) -> nn.Module:
        return self.walk.student.get_submodule(self.site.module)

    def fit_readout(self) -> None:
        wanted = response(self.site.layer, self.walk.full.arrays)

        def stream() -> Iterator[tuple[Tensor, Tensor, bool]]:
            for target, call, held in zip(self.full_calls, self.calls, self.walk.held, strict=True):
                yield self.site.read(call).float(), wanted(self.site.read(target).float()), held

        tokens = total_number(sum(self.site.read(call)[..., 0].numel() for call in self.calls))
        fit_readout(self.walk.student, self.layer, stream(), tokens)

    def fit_gates(self) -> None:
        mixer = Mixer(self.module)

        def insides() -> Iterator[Signals]:
            return (mixer.signals(call.first, call.named(mixer.module, "attention_mask")) for call in self.calls)

        def stream() -> Iterator[tuple[Signals, Tensor, bool]]:
            yield from zip(insides(), self.outputs, self.walk.held, strict=True)

        fit_gates(mixer, stream(), free_directions(mixer, insides()))

    def fit_rows(self, linear: str) -> None:
        dense, batches = self.walk.student.get_submodule(linear), zip(self.calls, self.outputs, strict=True)
        of_all = self.walk.inputs.batches
        fit_rows(RowProblem(self.module, self.layer, dense, dict(zip(self.walk.numbers, batches, strict=True)), of_all))

    def fit_linear(self, name: str) -> None:
        """Only with at least as many tokens as the dense layer has inputs: fewer cannot tell what is worth changing."""
        linear = self.walk.student.get_submodule(name)
        pairs = zip(self.outputs, self.walk.held, strict=True)
        tokens = total_number(sum(wanted[..., 0].numel() for wanted, held in pairs if not held))
        if tokens < matrix(linear).shape[1]:
            return

        def stream() -> Iterator[tuple[Tensor, Tensor, bool]]:
            for call, wanted, held in zip(self.calls, self.outputs, self.walk.held, strict=True):
                yield input_of(linear, self.module, call), wanted, held

        bias = linear.bias
        assert bias is None or isinstance(bias, Tensor)
        fit_linear(matrix(linear), bias, stream(), tokens)
