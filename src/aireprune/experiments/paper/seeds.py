"""What varies from model to model: the variants on models that differ in nothing but the seed of their training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aireprune.experiments.paper.markdown import table
from aireprune.experiments.paper.models import DROP, EXAMPLES, ZooModel, variants
from aireprune.experiments.paper.reproduction import Reproduction
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.statistics import student_interval
from aireprune.experiments.summary import Summary

RATIOS = (0.0, 0.3, 0.5, 0.7)
BASE = "aire"


def seed_request(model: ZooModel, recipe: str) -> SweepRequest:
    """The sweep of one of several models."""
    validation, test = EXAMPLES[recipe]
    return SweepRequest(
        variants=variants(model.family), ratios=RATIOS, examples=test, validation=validation, drop=DROP[recipe]
    )


def seeds_section(wanted: Reproduction) -> str:
    """A table per group of models: means, and differences from aire, with intervals over the models."""
    parts = [_group_table(wanted, group) for group in wanted.seeded]
    if not parts:
        return ""
    return (
        "## Over models that differ in their seed\n\nThe same recipe with other seeds of weights and order, judged on the "
        "same test examples. Points lost at a ratio, mean over the models, and in brackets the mean of (variant minus "
        f"{BASE}) with its 95 % interval over the models (Student's t), **bold** where that leaves 0 out.\n\n"
        + "\n\n".join(parts)
    )


def _group_table(wanted: Reproduction, group: Sequence[ZooModel]) -> str:
    summaries = [Summary.load(wanted.seed_folder(model) / "summary.json") for model in group]
    full = ", ".join(summary.text(summary.full.test) for summary in summaries)
    ratios = [ratio for ratio in RATIOS if ratio]
    rows = [[name, *(_cell(summaries, name, ratio) for ratio in ratios)] for name in summaries[0].variants]
    heads = ("variant", *(f"lost at {ratio:.0%}, (minus {BASE})" for ratio in ratios))
    return f"### {group[0].name}, {len(group)} seeds\n\nFull models: {full}.\n\n" + table(heads, rows)


def _cell(summaries: Sequence[Summary], name: str, ratio: float) -> str:
    lost = 100 * np.array([s.full.test - s.variants[name].at(ratio).test for s in summaries])
    if name == BASE:
        return f"{lost.mean():.1f}"
    base = 100 * np.array([s.full.test - s.variants[BASE].at(ratio).test for s in summaries])
    low, high = student_interval(base - lost)
    mean = float((base - lost).mean())
    told = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"{lost.mean():.1f} (**{told}**)" if low > 0 or high < 0 else f"{lost.mean():.1f} ({told})"
