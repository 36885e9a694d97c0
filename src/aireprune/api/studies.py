"""Looking at models and judging them: inspect, score, evaluate, sweep, report, explore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from aireprune.api.notices import tell
from aireprune.errors import AireError
from aireprune.families import StateAxes, Units
from aireprune.pruning.overview import Overview, overview
from aireprune.pruning.ranking import Ranking, ScoreChoices, rank
from aireprune.pruning.source import ConfigLike, FileSource, open_source

if TYPE_CHECKING:
    from torch import nn

    from aireprune.experiments.cells import Result
    from aireprune.experiments.evaluation import Evaluation
    from aireprune.experiments.request import SweepChoices
    from aireprune.experiments.summary import Summary
    from aireprune.reports.explorer import ExploreChoices
    from aireprune.reports.page import Page
    from aireprune.tasks.base import Task

    ModelOrPath = nn.Module | str | Path


class EvaluationChoices(TypedDict, total=False):
    """Keyword arguments of `evaluate` besides the models and what they are judged on."""

    window: int | None
    count: int | None
    batch: int | None
    config: ConfigLike


def inspect(model_or_path: ModelOrPath, *, config: ConfigLike = None, state_axis: Sequence[str] = ()) -> Overview:
    """What a model holds: its layers, their states, stability margins, memories and shares of the energy."""
    source = open_source(model_or_path, config, Units(state_axes=StateAxes.parse(state_axis)))
    tell(source.notices)
    return overview(source)


def score(
    model_or_path: ModelOrPath, method: str = "aire", *, config: ConfigLike = None, **choices: Unpack[ScoreChoices]
) -> Ranking:
    """Every state with its score, best first in each layer.

    horizon, seed, granularity, state_axis, measured: as in `plan`.
    """
    axes = StateAxes.parse(choices.get("state_axis", ()))
    source = open_source(model_or_path, config, Units(granularity=choices.get("granularity", "mode"), state_axes=axes))
    tell(source.notices)
    return rank(source, method, choices)


def evaluate(
    model_or_path: ModelOrPath,
    *,
    task: Task | str | None = None,
    text: str | Path | None = None,
    against: ModelOrPath | None = None,
    **choices: Unpack[EvaluationChoices],
) -> Evaluation:
    """How good a model is, with 95 % intervals: its accuracy on the test split of a task, or how well it predicts text.

    task: a task, its name, or an .npz file of your own. text: UTF-8 text, read with the tokenizer of a Hugging Face folder
    or byte by byte by models of bytes, or a .npy file of tokens; judged in bits per byte and perplexity per token, in
    windows of window=1024 tokens (fewer if the text is shorter). against: the full model, for both scores side by side,
    the share of equal answers and the mean KL divergence. count: use the first so many examples or windows. batch: so
    many at a time. config: as in `load`; beside `against`, for the file of the two that has none.
    """
    from aireprune.experiments.evaluation import Candidate, judge
    from aireprune.tasks.material import Material

    unknown = sorted(set(choices) - EvaluationChoices.__optional_keys__)
    if unknown:
        raise AireError(
            f"There is no argument {unknown[0]}=. Arguments: {', '.join(sorted(EvaluationChoices.__optional_keys__))}."
        )
    material = Material(task=task, text=text, window=choices.get("window"), count=choices.get("count"))
    candidate = Candidate(model=model_or_path, against=against, config=choices.get("config"))
    return judge(candidate, material, choices.get("batch"))


def sweep(
    model_or_path: ModelOrPath,
    task: str | Task,
    out: str | Path,
    *,
    config: ConfigLike = None,
    progress: Callable[[Result, int, int], None] | None = None,
    ray: str | None = None,
    **choices: Unpack[SweepChoices],
) -> Summary:
    """Prune with every method at every ratio, judge each model on a task, and write it all into the folder `out`.

    methods, reduce: what to compare; ratios; seeds=3: of method 'random'; examples=1000: at most so many of validation
    and of test, 0 for all; calibrated, calibrate: with fitted readouts too; max_drop=1: what a safe ratio may cost on
    validation, in points. progress(result, cells done, cells in all) is called after every cell. A folder that exists is
    resumed. It gets report.html and, with matplotlib, figures. ray: a Ray cluster to do it on, 'auto' or HOST:PORT.
    """
    from aireprune.experiments.on_ray import runner
    from aireprune.experiments.request import make_sweep_request
    from aireprune.experiments.sweep import Setting, run_sweep
    from aireprune.reports.present import present_sweep
    from aireprune.tasks import load_task

    request, run, source = make_sweep_request(choices), runner(ray), open_source(model_or_path, config)
    model = source.build() if isinstance(source, FileSource) else source.module
    loaded = load_task(task) if isinstance(task, str) else task
    setting = Setting(source=source.origin, run=run)
    summary = run_sweep(model, loaded, request, Path(out), progress or (lambda *step: None), setting)
    tell((*source.notices, *present_sweep(Path(out), source)))
    return summary


def report(
    what: ModelOrPath,
    out: str | Path | None = None,
    *,
    original: ModelOrPath | None = None,
    task: str | None = None,
    examples: int = 1000,
    config: ConfigLike = None,
) -> Page:
    """Write one HTML file about a model, a checkpoint (pruned or not), a plan file or the folder of a sweep.

    out: by default report.html in the folder, or beside the file. original: by default the one that the plan or sweep
    names. task: both models are judged on so many of its test examples, and timed.
    """
    from aireprune.reports.gather import Judged, document_of
    from aireprune.reports.page import write_page
    from aireprune.reports.place import place_of
    from aireprune.reports.subject import find_subject

    path = place_of(what, out)
    document = document_of(
        find_subject(what, original, config), None if task is None else Judged(task=task, examples=examples)
    )
    tell(document.notices)
    return write_page(document, path)


def explore(
    model_or_path: ModelOrPath,
    out: str | Path | None = None,
    ratio: float = 0.5,
    *,
    config: ConfigLike = None,
    **choices: Unpack[ExploreChoices],
) -> Page:
    """Write one HTML file in which the ratio, the method and more can be changed, and the plan saved.

    horizon, seed, unstable, layout, granularity, state_axis: as in `plan`; the page cannot change these.
    """
    from aireprune.reports.explorer import exploration_document, make_exploration
    from aireprune.reports.page import write_page
    from aireprune.reports.place import place_of

    path, wanted = place_of(model_or_path, out, "explore.html"), make_exploration(ratio, choices)
    document = exploration_document(open_source(model_or_path, config, wanted.request().units), wanted)
    tell(document.notices)
    return write_page(document, path)
