"""What a file of weights does not say about its network, and how that is found out instead of assumed.

An S4D network whose layers are normalised before (pre-norm) has the same tensors as one that normalises after
(post-norm). The configuration may say which it is. If it does not, models of both kinds are built and judged: by what
they know about labelled examples, or, without labels, by how much their answers say,

    information = H(mean p) - mean H(p)        p = the probabilities of one answer, H = entropy in nats

which is high if answers are sure and differ from input to input. Sureness alone would not do: the public S4D checkpoint,
run as the pre-norm model that it is not, is surer of fewer answers (mean H 0.13 in place of 0.41, information 1.5 in place
of 1.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.models.evaluation import evaluation_mode

QUESTIONS: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "s4d": ("prenorm", (False, True), "whether its layers are normalised before (prenorm true) or after (false)"),
}
MARGIN = 0.1  # nats of information by which one model must be ahead

Build = Callable[[Found], nn.Module]


@dataclass(frozen=True)
class Judge:
    """score: of a model, higher is better. margin: by how much one must be ahead. unit: what the score is, for notices."""

    score: Callable[[nn.Module], float]
    margin: float
    unit: str


@dataclass(frozen=True)
class Settled:
    """What was found out, for the configuration, and what to tell the user."""

    facts: Mapping[str, Any]
    notice: str


def question(found: Found) -> tuple[str, tuple[Any, ...], str] | None:
    """The key that the configuration lacks, its possible values, and what it says; None if nothing is open."""
    asked = next((QUESTIONS[layer.family] for layer in found.layers if layer.family in QUESTIONS), None)
    return None if asked is None or asked[0] in found.config else asked


def require_settled(found: Found) -> None:
    """Raise if a model would have to be built on an assumption."""
    asked = question(found)
    if asked is not None:
        raise _undecided(found, asked, "")


def settle(found: Found, build: Build, judge: Judge) -> Settled | None:
    """Try every answer to what the file leaves open; None if it leaves nothing open, an error if none is ahead."""
    asked = question(found)
    if asked is None:
        return None
    key, values, _ = asked
    scores = {value: judge.score(build(replace(found, config={**found.config, key: value}))) for value in values}
    best, second = sorted(values, key=lambda value: -scores[value])[:2]
    told = ", ".join(f"{str(value).lower()} {scores[value]:.3g}" for value in values)
    if not scores[best] >= scores[second] + judge.margin:
        raise _undecided(found, asked, f" Both were tried, and neither is ahead in {judge.unit} ({told}).")
    return Settled(
        {key: best},
        f"the file does not say {key}; both were tried and {key} {str(best).lower()} is used ({judge.unit}: {told}). "
        "config= says otherwise.",
    )


def by_information(inputs: Iterable[Tensor]) -> Judge:
    """Judge models by how much their answers to unlabelled inputs say."""
    batches = list(inputs)
    return Judge(lambda model: information(model, batches), MARGIN, "information of the answers, in nats")


@torch.inference_mode()
def information(model: nn.Module, batches: Iterable[Tensor]) -> float:
    """H(mean p) - mean H(p) of a model's answers, in nats; minus infinity where they are not finite."""
    with evaluation_mode(model):
        logits = torch.cat([model(batch).flatten(0, -2).double() for batch in batches])
    if not torch.isfinite(logits).all():
        return -torch.inf
    p = logits.softmax(-1)
    return float(_entropy(p.mean(0)) - _entropy(p).mean())


def _entropy(p: Tensor) -> Tensor:
    return torch.special.entr(p).sum(-1)


def _undecided(found: Found, asked: tuple[str, tuple[Any, ...], str], tried: str) -> AireError:
    key, _, meaning = asked
    return AireError(
        f"{found.name}: the file does not say {meaning}, and models of both kinds have the same tensors.{tried} Say so with "
        f"config= (JSON with {key}, read by itself if it is NAME.json beside the file), or give inputs on which both can be "
        "tried (calibrate=…, task=…)."
    )
