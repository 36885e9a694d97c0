"""How good a model is and how sure that is, alone or beside the full model that it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from aireprune.errors import AireError
from aireprune.experiments.statistics import interval, normal_interval, paired_interval, paired_p_value
from aireprune.pruning.settling import as_settled, settled_by_task
from aireprune.pruning.source import ConfigLike, FileSource, open_file
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import Compared, Report, compare, per_example
from aireprune.tasks.material import Material


@dataclass(frozen=True)
class Estimate:
    """A mean over examples and its 95 % interval, which is infinite if there is one example only."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Score:
    """How good a model is. metric: accuracy (0 to 1), bits per byte or bits per token. perplexity: per token, of a
    language model."""

    metric: Estimate
    perplexity: Estimate | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A model beside the full one, on the same examples.

    full: the full model's score. difference: metric of the model minus that of the full one; p: of no difference.
    agreement: share of examples (of a language model, of steps) with the same answer. divergence: mean KL(full || model)
    of the outputs, in nats per example or step.
    """

    full: Score
    difference: Estimate
    p: float
    agreement: Estimate
    divergence: Estimate


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model reaches on a task's test split or on a text.

    data: the task's name or the text's path. metric: "accuracy", "bits per byte" or "bits per token". examples: how many,
    of at most `length` steps each. bytes_per_token: of a language model, how much text a token stands for.
    notices: what was found out about files that do not say it.
    """

    data: str
    metric: str
    examples: int
    length: int
    bytes_per_token: float | None
    score: Score
    against: Comparison | None = None
    notices: tuple[str, ...] = ()

    @property
    def language(self) -> bool:
        return self.score.perplexity is not None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; notices are said elsewhere."""
        return {key: value for key, value in asdict(self).items() if key != "notices"}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What is judged: a model or the path of a checkpoint, and the full model to hold it against, if there is one.

    config: what the file does not say; beside `against`, it is for the one of the two that has no configuration of its own.
    """

    model: nn.Module | str | Path
    against: nn.Module | str | Path | None = None
    config: ConfigLike = None


def judge(
    candidate: Candidate,
    material: Material,
    batch: int | None = None,
    report: Report = lambda done, total: None,
) -> Evaluation:
    """Open what is given as a path, and judge it. batch: examples at a time. report(examples done, of how many)."""
    material = material.loaded()
    against = candidate.against
    original = None if against is None else _opened(against, candidate.config, False)
    full, notices, facts = (None, (), {}) if original is None else _built(original, material, {})
    model, more, _ = _built(_opened(candidate.model, candidate.config, against is None), material, facts)
    task = material.for_model(model)
    return replace(evaluate_model(model, task, full, batch, report), notices=(*notices, *more))


def evaluate_model(
    model: nn.Module,
    task: Task,
    full: nn.Module | None = None,
    batch: int | None = None,
    report: Report = lambda done, total: None,
) -> Evaluation:
    """The model on the task's test split, beside the full model if one is given. batch: examples at a time."""
    if full is None:
        values, against = per_example(model, task, task.test, batch, report), None
    else:
        found = compare(model, full, task, task.test, batch, report)
        values, against = found.metric, _comparison(task, found)
    return Evaluation(
        data=task.name,
        metric=task.metric,
        examples=len(task.test),
        length=task.length,
        bytes_per_token=task.bytes_per_token if task.language else None,
        score=_score(task, values),
        against=against,
    )


def _opened(what: nn.Module | str | Path, config: ConfigLike, overrule: bool) -> nn.Module | FileSource:
    """A model, or a file that is not built yet. overrule: the configuration goes before the one beside the file."""
    if isinstance(what, nn.Module):
        return what
    if not isinstance(what, str | Path):
        raise AireError(f"Expected a model or the path of a checkpoint, not a {type(what).__name__}.")
    path = Path(what)
    known = path.is_dir() or path.with_suffix(".json").exists()
    return open_file(path, None if known and not overrule else config)


def _built(
    opened: nn.Module | FileSource, material: Material, known: Mapping[str, Any]
) -> tuple[nn.Module, tuple[str, ...], Mapping[str, Any]]:
    """The model, and what was found out about its file with the material, in words and as a configuration.

    known: what was found out about another file of the same network.
    """
    if isinstance(opened, nn.Module):
        return opened, (), {}
    settled = settled_by_task(as_settled(opened, known), material.for_model)
    return settled.build(), settled.notices[len(opened.notices) :], settled.settled


def _comparison(task: Task, found: Compared) -> Comparison:
    difference = float(np.mean(found.metric - found.full_metric))
    share = normal_interval if task.language else interval
    return Comparison(
        full=_score(task, found.full_metric),
        difference=Estimate(difference, *paired_interval(found.metric, found.full_metric)),
        p=paired_p_value(found.metric, found.full_metric),
        agreement=Estimate(float(found.agreement.mean()), *share(found.agreement)),
        divergence=Estimate(float(found.divergence.mean()), *normal_interval(found.divergence)),
    )


def _score(task: Task, values: np.ndarray) -> Score:
    """values: the metric of every example, (N,)."""
    if not task.language:
        return Score(metric=Estimate(float(values.mean()), *interval(values)), perplexity=None)
    bits = Estimate(float(values.mean()), *normal_interval(values))
    per_token = task.bytes_per_token or 1.0
    with np.errstate(over="ignore"):
        bounds = (float(np.exp2(np.float64(bits_per_byte * per_token))) for bits_per_byte in vars(bits).values())
        return Score(metric=bits, perplexity=Estimate(*bounds))
