"""Does merging states of a Mamba whose poles nearly coincide do better than removing them?

    python tools/mamba_merging.py zoo:smnist-mamba --task smnist --ratios 0.75,0.875

States with equal poles can be mixed as those of Mamba-2 can (`aireprune.method.projection`): W_B and W_C are linear in
x_t, so the rows of a merged state are combinations of the old ones. Two ways to merge are tried, each followed by the
same readout fit as the calibrated default, which removes states by damage-calibrated:

    into kept   the states that the default removes are merged into the kept ones with the nearest poles
    clusters    neighbours in the order of poles are merged one after the other, each time those whose merger, with its
                mean pole, changes what they put out least; a state that puts out less than that is dropped instead

Printed are accuracy, agreement with the full model and mean KL on test examples.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import aireprune
from aireprune.calibration.calls import Call
from aireprune.calibration.inputs import ArrayInputs, Inputs, task_inputs
from aireprune.calibration.mixers import Mixer, Signals
from aireprune.calibration.readout import calibrate
from aireprune.calibration.subject import Subject, find_subject
from aireprune.calibration.watching import watch
from aireprune.kernels.selective import selective_scan
from aireprune.method.projection import project
from aireprune.pruning.source import open_module
from aireprune.tasks import Task, load_task

SEQUENCES = 16  # on which states are looked at


@dataclass(frozen=True)
class Merged:
    """A state made of others: its logarithmic poles (D,), and the weights of the rows of B and of C, (N,) each."""

    pole: Tensor
    b: Tensor
    c: Tensor


class States:
    """What the states of a layer do on data."""

    def __init__(self, mixer: Mixer, inside: Signals):
        self.mixer, self.inside = mixer, inside
        self.h = torch.stack([mixer.state(inside, j) for j in range(mixer.states)])  # (N, b, L, D)
        gated = (self.h * inside.s).flatten(1)
        self.moments = torch.stack(
            [
                inside.c.flatten(0, 1).T @ inside.c.flatten(0, 1) / inside.c[..., 0].numel(),
                gated @ gated.T / inside.c[..., 0].numel(),
            ]
        )
        self.order = self.poles.mean(0).argsort().tolist()

    @property
    def poles(self) -> Tensor:
        return self.mixer.module.A_log.detach().float()

    @property
    def energies(self) -> Tensor:
        return self.moments[0].diagonal() * self.moments[1].diagonal()

    def merged(self, cluster: list[int]) -> Merged:
        """The state that stands in for a cluster best, as if all of it had one pole."""
        weights = self.energies[cluster] / self.energies[cluster].sum()
        part = np.ix_(cluster, cluster)
        made = project(self.moments.double().numpy()[:, None, part[0], part[1]], 1)
        rows = torch.zeros(2, self.mixer.states)
        rows[:, cluster] = torch.from_numpy(np.stack([made.b[0, 0], made.c[0, 0]])).float()
        return Merged(self.poles[:, cluster] @ weights, rows[0], rows[1])

    def output(self, cluster: list[int]) -> Tensor:
        """What a cluster puts out, gated."""
        return torch.einsum("nbld,bln->bld", self.h[cluster], self.inside.c[..., cluster]) * self.inside.s

    def lost(self, cluster: list[int]) -> tuple[float, float]:
        """Squared errors of what a cluster puts out once it is merged, and once it is dropped."""
        wanted, state, inside = self.output(cluster), self.merged(cluster), self.inside
        b, c = (inside.b @ state.b)[..., None], (inside.c @ state.c)[..., None]
        pole = -torch.exp(state.pole[:, None])
        found = selective_scan(inside.x, inside.dt, pole, b, c, None, self.mixer.module.dt_proj.bias)[0] * inside.s
        return float((wanted - found).square().sum()), float(wanted.square().sum())


def clusters(states: States, size: int) -> list[list[int]]:
    """Neighbours by their poles, merged or dropped until `size` clusters are left."""
    found, costs = [[j] for j in states.order], {}

    def lost(cluster: list[int]) -> tuple[float, float]:
        if tuple(cluster) not in costs:
            costs[tuple(cluster)] = states.lost(cluster) if len(cluster) > 1 else (0.0, states.lost(cluster)[1])
        return costs[tuple(cluster)]

    while len(found) > size:
        drops = [(lost(one)[1] - lost(one)[0], number, False) for number, one in enumerate(found)]
        merges = [
            (lost(one + other)[0] - lost(one)[0] - lost(other)[0], number, True)
            for number, (one, other) in enumerate(pairwise(found))
        ]
        _, number, merge = min(drops + merges)
        gone = found.pop(number)
        if merge:
            found[number] = gone + found[number]
    return found


def into_kept(states: States, kept: list[int]) -> list[list[int]]:
    """Every state with the kept one whose pole is nearest."""
    poles = states.poles.mean(0)
    nearest = (poles[:, None] - poles[kept]).abs().argmin(1)
    return [[j for j in range(len(poles)) if int(nearest[j]) == k] for k in range(len(kept))]


def put(module: Any, full: Any, made: list[Merged]) -> None:
    """Give a layer these states, in place."""
    rank, n = Mixer(full).rank, Mixer(full).states
    rows = full.x_proj.weight.detach()
    b, c = rows[rank : rank + n], rows[rank + n :]
    new = [rows[:rank], *(state.b[None] @ b for state in made), *(state.c[None] @ c for state in made)]
    module.x_proj.weight.data = torch.cat(new)
    module.A_log.data = torch.stack([state.pole for state in made], 1)


@torch.no_grad()
def looked_at(subject: Subject, inputs: Inputs) -> dict[str, States]:
    """The states of every layer, on the first sequences."""
    found: dict[str, States] = {}

    def look(name: str, mixer: Mixer) -> Any:
        return lambda call: found.__setitem__(name, States(mixer, mixer.signals(call.first)))

    looks = {
        site.layer.name: look(site.layer.name, Mixer(subject.module.get_submodule(site.module)))
        for site in subject.sites
    }
    first = torch.cat([inputs[number].first for number in range(inputs.batches)])[:SEQUENCES]
    watch(subject, [Call((first,))], looks)
    return found


@torch.no_grad()
def merged_model(model: nn.Module, plan: aireprune.Plan, states: dict[str, States], how: str) -> nn.Module:
    """The model with as many states as the plan keeps, all of them mergers."""
    small = aireprune.prune(model, plan)
    for layer in plan.layers:
        mine, kept = states[layer.name], list(layer.kept)
        groups = clusters(mine, len(kept)) if how == "clusters" else into_kept(mine, kept)
        put(small.get_submodule(layer.name), model.get_submodule(layer.name), [mine.merged(one) for one in groups])
        print(f"  {how}, {layer.name}: {' '.join('+'.join(map(str, one)) for one in groups)}")
    return small


@torch.no_grad()
def answers(model: nn.Module, task: Task, count: int) -> Tensor:
    x = torch.from_numpy(task.batch(task.test.rows(slice(0, count))).x)
    return torch.cat([model(part) for part in x.split(50)]).log_softmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--task", default="smnist")
    parser.add_argument("--ratios", default="0.75,0.875")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--calibrate-count", type=int, default=256)
    given = parser.parse_args()
    task, model = load_task(given.task), aireprune.load(given.checkpoint)
    inputs: ArrayInputs = task_inputs(task, given.calibrate_count)
    subject = find_subject(open_module(model), inputs)
    full, states = answers(model, task, given.examples), looked_at(subject, inputs)
    labels = torch.from_numpy(task.test.y[: given.examples])

    def show(name: str, small: nn.Module) -> None:
        found = answers(small, task, given.examples)
        right, same = ((found.argmax(-1) == wanted).float().mean() for wanted in (labels, full.argmax(-1)))
        kl = (full.exp() * (full - found)).sum(-1).mean()
        print(f"{name}: accuracy {100 * right:.2f}, agreement {100 * same:.2f}, KL {kl:.4f}", flush=True)

    show("full", model)
    for ratio in map(float, given.ratios.split(",")):
        default = aireprune.prune(model, ratio=ratio, calibrate=inputs)
        show(f"{ratio:g} default", default)
        for how in ("into kept", "clusters"):
            small = merged_model(model, default.plan, states, how)
            show(f"{ratio:g} {how}", calibrate(subject, open_module(small), inputs))


if __name__ == "__main__":
    main()
