"""Do poles that are moved to where they fit best do better than those of balanced truncation?

    python tools/pole_refinement.py FULL REDUCED --task scifar_rgb --config config.json

FULL is a checkpoint of S4D layers, REDUCED what `aire prune --layout adaptive --calibrate` made of it. Every
channel by itself: with S the power spectrum of what the channel reads in the full model,

    sum over frequencies w of  S(w) |K(w) - sum_i g_i / (1 - lam_i e^-jw) - d|^2

is minimised over the poles lam by L-BFGS, the gains g and the feedthrough d being solved for inside (variable
projection). Then readouts are calibrated again, as for the poles that the reduced model had. Printed are the distances
of both from the full model on held-out inputs, and their accuracy on test examples.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable

import torch
from torch import Tensor

import aireprune
from aireprune.calibration.calls import Call
from aireprune.calibration.comparison import Distance
from aireprune.calibration.distillation import Teacher
from aireprune.calibration.inputs import ArrayInputs, judging, task_inputs
from aireprune.calibration.readout import calibrate
from aireprune.calibration.response import Response, response
from aireprune.calibration.sites import Site
from aireprune.calibration.subject import Subject, find_subject
from aireprune.calibration.watching import watch
from aireprune.pruning.source import ModuleSource, open_module
from aireprune.tasks import load_task

SEQUENCES = 64  # whose spectra are taken
ROUNDS = 60  # of L-BFGS
RIDGE = 1e-8


def spectra(full: Subject, inputs: ArrayInputs) -> dict[str, Tensor]:
    """By layer: the power (h, L/2 + 1) of what its channels read."""
    found: dict[str, Tensor] = {}

    def look_at(site: Site) -> Callable[[Call], None]:
        def look(call: Call) -> None:
            power = torch.fft.rfft(site.read(call).double(), dim=1).abs().square().sum(0).T
            found[site.layer.name] = found.get(site.layer.name, 0) + power

        return look

    calls = [inputs[number] for number in range(-(-SEQUENCES // inputs.batch))]
    watch(full, calls, {site.layer.name: look_at(site) for site in full.sites})
    return found


def transfer(lam: Tensor, length: int) -> Tensor:
    """1 / (1 - lam e^-jw) at the frequencies of a real signal, (..., m) -> (..., w, m)."""
    w = torch.arange(length // 2 + 1, dtype=torch.float64) * 2 * torch.pi / length
    return 1 / (1 - lam[..., None, :] * torch.exp(-1j * w)[:, None])


def columns(lam: Tensor, weight: Tensor, length: int) -> Tensor:
    """What Re g, Im g and d do at weighted frequencies, as real numbers: (h, 2w, 2m + 1)."""
    one, other = transfer(lam, length), transfer(lam.conj(), length)
    ones = torch.ones_like(one[..., :1])
    both = weight[..., None] * torch.cat([(one + other) / 2, 1j * (one - other) / 2, ones], -1)
    return torch.cat([both.real, both.imag], -2)


def refined(lam: Tensor, target: Tensor, weight: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Poles (h, m) moved, their gains (h, m) and d (h,), for what should be put out at frequencies, target (h, w)."""
    wanted = torch.cat([(weight * target).real, (weight * target).imag], -1)[..., None]
    scale = wanted.square().sum((1, 2)).clamp(min=1e-30)
    size = torch.logit(lam.abs().clamp(1e-3, 1 - 1e-6)).requires_grad_()
    angle = lam.angle().clone().requires_grad_()

    def poles() -> Tensor:
        return torch.polar(torch.sigmoid(size), angle)

    def solve() -> tuple[Tensor, Tensor]:
        x = columns(poles(), weight, length)
        norms = x.detach().square().sum(-2, keepdim=True).sqrt().clamp(min=1e-30)
        x = x / norms
        gram = x.mT @ x + RIDGE * torch.eye(x.shape[-1], dtype=x.dtype)
        found = torch.linalg.solve(gram, x.mT @ wanted)
        return (x @ found - wanted).square().sum((1, 2)) / scale, found[..., 0] / norms[..., 0, :]

    optimizer = torch.optim.LBFGS([size, angle], max_iter=ROUNDS, history_size=10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = solve()[0].sum()
        total.backward()
        return total

    before = float(solve()[0].detach().mean())
    optimizer.step(loss)
    with torch.no_grad():
        after, found = solve()
        m = lam.shape[1]
        print(f"    {len(lam)} channels of {m}: error {before:.4f} -> {float(after.mean()):.4f}", flush=True)
        return poles(), torch.complex(found[:, :m], found[:, m : 2 * m]), found[:, -1]


def refine(full: Response, model: ModuleSource, number: int, power: Tensor) -> None:
    """Move the poles of one of the model's layers, in place, and give it gains that fit them."""
    layer, tensors = model.layers[number], model.module.state_dict()
    small = response(layer, model.arrays)
    length = 2 * (power.shape[1] - 1)
    gains = torch.from_numpy(full.system.share * full.system.c[:, 0, 0] * full.system.b[..., 0])
    lam = torch.from_numpy(full.system.lam)
    assert full.skip is not None
    target = torch.from_numpy(full.skip)[:, None] + _real_response(lam, gains, length)
    active = torch.from_numpy((small.system.c[:, 0, 0] * small.system.b[..., 0]) != 0)
    step = tensors[layer.arrays["log_dt"]].double().exp()
    for count in filter(None, active.sum(1).unique().tolist()):
        index = torch.nonzero(active.sum(1) == count)[:, 0]
        places = torch.nonzero(active[index])[:, 1].reshape(len(index), count)
        start = torch.from_numpy(small.system.lam)[index].gather(1, places)
        poles, gain, skip = refined(start, target[index], power[index].sqrt(), length)
        a = torch.log(poles) / step[index, None]
        c = gain * a / (poles - 1) / small.system.share
        rows = index[:, None].expand_as(places)
        tensors[layer.arrays["log_A_real"]][rows, places] = torch.log(-a.real).float()
        tensors[layer.arrays["A_imag"]][rows, places] = a.imag.float()
        tensors[layer.arrays["C"]][rows, places] = torch.view_as_real(c).float()
        assert layer.feedthrough is not None
        tensors[layer.feedthrough].view(-1)[index] = skip.float()


def _real_response(lam: Tensor, gains: Tensor, length: int) -> Tensor:
    """Of Re sum g lam^t."""
    one, other = transfer(lam, length), transfer(lam.conj(), length)
    return ((one * gains[:, None] + other * gains.conj()[:, None]) / 2).sum(-1)


def judged(full: ModuleSource, model: torch.nn.Module, inputs: ArrayInputs) -> Distance:
    return Teacher(full.module, [inputs[number] for number in judging(inputs)]).judge(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("full")
    parser.add_argument("reduced")
    parser.add_argument("--task", required=True)
    parser.add_argument("--config", help="what the file of the full model does not say, as JSON")
    parser.add_argument("--count", type=int, default=256, help="inputs to calibrate with")
    parser.add_argument("--examples", type=int, default=2000, help="of the test split")
    args = parser.parse_args()
    full, reduced = open_module(aireprune.load(args.full, config=args.config)), aireprune.load(args.reduced)
    inputs = task_inputs(load_task(args.task), args.count)
    subject = find_subject(full, inputs)
    power = spectra(subject, inputs)
    moved = open_module(copy.deepcopy(reduced))
    with torch.no_grad():
        for number, layer in enumerate(full.layers):
            print(layer.name, flush=True)
            with torch.enable_grad():
                refine(response(layer, full.arrays), moved, number, power[layer.name])
    for name, model in (("as they were", open_module(reduced)), ("moved", moved)):
        fitted = calibrate(subject, model, inputs)
        found = judged(full, fitted, inputs)
        accuracy = aireprune.evaluate(fitted, task=args.task, count=args.examples).score.metric.value
        print(
            f"poles {name}: outputs differ by {found.output:.1%}, divergence {found.divergence:.4f} nats, {accuracy:.2%}"
        )


if __name__ == "__main__":
    main()
