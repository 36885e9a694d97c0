"""What a file leaves open about its network, settled with the data at hand: see `aireprune.models.ambiguous`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aireprune.pruning.source import FileSource

if TYPE_CHECKING:
    from torch import Tensor, nn

    from aireprune.calibration.inputs import Inputs
    from aireprune.models.ambiguous import Judge
    from aireprune.tasks.base import Task

SEQUENCES = 128  # that models are tried on
MARGIN = 0.05  # of accuracy, or bits per byte, by which one model must be ahead


def is_open(source: FileSource) -> bool:
    """Whether a model of the source would have to be built on an assumption."""
    from aireprune.models.ambiguous import question

    return source.builder is None and source.kind != "huggingface" and question(source) is not None


def as_settled(source: FileSource, known: Mapping[str, Any]) -> FileSource:
    """The source with what was found out about another one of the same network."""
    if not known or not is_open(source):
        return source
    return replace(source, config={**source.config, **known}, settled=known)


def settled_by_inputs(source: FileSource, read: Callable[[], Inputs | None]) -> FileSource:
    """The source with what unlabelled inputs say about it. read: gives them; asked only if something is open."""
    if not is_open(source):
        return source
    inputs = read()
    if inputs is None:
        return source
    return settled_by_batches(source, (inputs[number].first for number in range(inputs.batches)))


def settled_by_batches(source: FileSource, batches: Iterable[Tensor]) -> FileSource:
    """The same, with the first SEQUENCES of batches that the model takes."""
    if not is_open(source):
        return source
    from aireprune.models.ambiguous import by_information

    chosen, count = [], 0
    for batch in batches:
        chosen.append(batch[: SEQUENCES - count])
        count += len(chosen[-1])
        if count >= SEQUENCES:
            break
    return _settled(source, by_information(chosen))


def settled_by_task(source: FileSource, task_of: Callable[[nn.Module], Task]) -> FileSource:
    """The source with what labelled validation examples say about it. task_of: the task as a model takes it."""
    if not is_open(source):
        return source
    from aireprune.models.ambiguous import Judge
    from aireprune.tasks.evaluate import evaluate

    def score(model: nn.Module) -> float:
        task = task_of(model)
        split = task.validation if len(task.validation) else task.test
        metric = evaluate(model, task, split.rows(slice(0, SEQUENCES)))
        return -metric if task.language else metric

    return _settled(source, Judge(score, MARGIN, "what it scores on validation examples"))


def _settled(source: FileSource, judge: Judge) -> FileSource:
    from aireprune.models.ambiguous import settle
    from aireprune.models.build import build_model

    found = settle(source, lambda variant: build_model(variant, source.checkpoint), judge)
    if found is None:
        return source
    return replace(
        source,
        config={**source.config, **found.facts},
        settled=found.facts,
        notices=(*source.notices, found.notice),
    )
