"""The page's tables, from the summaries and cells of the sweeps, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aireprune.experiments.cells import Key, read_cells
from aireprune.experiments.paper import paper
from aireprune.experiments.paper.markdown import mark, table, with_interval
from aireprune.experiments.paper.models import METHODS, ZooModel
from aireprune.experiments.paper.reproduction import FAMILIES, TABLE_FAMILIES, Reproduction
from aireprune.experiments.paper.speed import Speeds
from aireprune.experiments.summary import Point, Summary

MATCHED = 0.5
AVERAGED = (0.3, 0.5, 0.7)
Summaries = Mapping[str, Summary]


def safe_table(item: str, family: str, wanted: Reproduction, summaries: Summaries) -> str:
    """Table 1 or 2: a row per variant, ratio and metric per model, then the paper's rows."""
    chosen = wanted.of_family(family)
    if not chosen:
        return ""
    rows = [["full model", *(with_interval(s, s.full) for s in (summaries[model.name] for model in chosen))]]
    names = summaries[chosen[0].name].variants
    rows += [[name, *(_safe_cell(summaries[model.name], name) for model in chosen)] for name in names]
    for method in ("full", *METHODS):
        cells = [_paper_cell(family, method, model) for model in chosen]
        if any(cell != "–" for cell in cells):
            rows.append([f"*paper, {FAMILIES[family]} at its scale: {method}*", *cells])
    title = f"## {item.replace('table', 'Table ')}: safe ratio and result, {FAMILIES[family]}"
    return title + "\n\n" + table(("variant", *(model.name for model in chosen)), rows)


def _safe_cell(summary: Summary, name: str) -> str:
    safe = summary.variants[name].safe
    return f"{safe.ratio:.0%}: {with_interval(summary, safe)}"


def _paper_cell(family: str, method: str, model: ZooModel) -> str:
    found = paper.reported(family, method, model.base)
    return "–" if found is None else f"{found[0]:g}%: {found[1]:.2f}"


def matched_table(wanted: Reproduction, summaries: Summaries) -> str:
    """Every variant at the same ratio, marked where it differs from aire on the same examples."""
    names = list(dict.fromkeys(name for model in wanted.models for name in summaries[model.name].variants))
    answers = {model.name: _matched_answers(wanted, model, summaries[model.name]) for model in wanted.models}
    rows = [
        [name, *(_matched_cell(name, summaries[model.name], answers[model.name]) for model in wanted.models)]
        for name in names
    ]
    return (
        f"## All variants at the same ratio, {MATCHED:.0%}\n\n▲ better, ▽ worse than aire on the same test examples, "
        "p < 0.01 (McNemar's exact test; for bits per byte a paired test). Random: mean ± deviation over three seeds, "
        "compared by its first.\n\n" + table(("variant", *(model.name for model in wanted.models)), rows)
    )


def _matched_answers(wanted: Reproduction, model: ZooModel, summary: Summary) -> dict[str, np.ndarray]:
    cells = read_cells(wanted.sweep_folder(model) / "cells.jsonl")
    return {
        key.variant: found.per_example(summary.examples)
        for key, found in cells.items()
        if (key.ratio, key.seed) == (MATCHED, 0)
    }


def _matched_cell(name: str, summary: Summary, answers: Mapping[str, np.ndarray]) -> str:
    if name not in answers:
        return "–"
    point = summary.variants[name].at(MATCHED)
    spread = "" if point.sd is None else f" ± {summary.text(point.sd)}"
    return summary.text(point.test) + spread + mark(summary, answers[name], answers["aire"])


def averages(wanted: Reproduction, summaries: Summaries) -> str:
    """Mean safe ratio and mean loss at matched ratios over the models of a family, and the paper's averages."""
    heads = (
        "variant",
        "mean safe ratio",
        "loss there",
        "loss at 30 %",
        "at 50 %",
        "at 70 %",
        "paper, its scale: ratio, loss",
    )
    parts = []
    for family in dict.fromkeys(model.family for model in wanted.models):
        chosen = [summaries[model.name] for model in wanted.of_family(family) if model.base != "lm"]
        reported = paper.TABLE1 if family == "s5" else paper.TABLE2[family]
        rows = [[*_average(name, chosen), _paper_average(reported, name)] for name in chosen[0].variants]
        count = f"{len(chosen)} model{'s' if len(chosen) > 1 else ''}"
        parts.append(f"### {FAMILIES[family]}, {count}\n\n" + table(heads, rows))
    return "## Averages: ratio, and points of accuracy lost\n\n" + "\n\n".join(parts)


def _average(name: str, chosen: Sequence[Summary]) -> list[str]:
    curves = [(summary, summary.variants[name]) for summary in chosen]
    return [
        name,
        f"{100 * np.mean([curve.safe_ratio for _, curve in curves]):.0f} %",
        f"{np.mean([_loss(summary, curve.safe) for summary, curve in curves]):.2f}",
        *(f"{np.mean([_loss(summary, curve.at(ratio)) for summary, curve in curves]):.1f}" for ratio in AVERAGED),
    ]


def _loss(summary: Summary, point: Point) -> float:
    """Points of accuracy lost, or per cent of bits per byte gained."""
    full = summary.full.test
    return 100 * (full - point.test if summary.accuracy else point.test / full - 1)


def _paper_average(reported: Mapping[str, Mapping[str, tuple[float, float]]], name: str) -> str:
    if name not in reported:
        return "–"
    ratios = [ratio for ratio, _ in reported[name].values()]
    losses = [reported["full"][task][1] - value for task, (_, value) in reported[name].items()]
    return f"{np.mean(ratios):.0f} %, {np.mean(losses):.2f}"


def speed_table(item: str, wanted: Reproduction, summaries: Summaries) -> str:
    """Table 3 or 5: a row per model and variant that was timed."""
    (family,) = TABLE_FAMILIES[item]
    reported = paper.TABLE3 if item == "table3" else paper.TABLE5
    rows = []
    for model in wanted.of_family(family):
        summary, beside = summaries[model.name], reported.get(model.base)
        for name, found in Speeds.load(wanted.sweep_folder(model) / "speed.json").variants.items():
            safe, (low, high) = summary.variants[name].safe, found.quartiles
            rows.append(
                [
                    f"{model.name}, {name}",
                    f"{safe.ratio:.0%}",
                    f"{found.speedup:.2f} ({low:.2f} to {high:.2f})",
                    f"{summary.saved(safe):.1%}",
                    "–" if beside is None else f"{beside[0]:g}%, {beside[1]:g}x, {beside[2]:g}%",
                ]
            )
    heads = (
        "model",
        "safe ratio",
        "speedup (quartiles)",
        "parameters saved",
        "paper on an H100: ratio, speedup, parameters",
    )
    return (
        f"## {item.replace('table', 'Table ')}: speed and size at the safe ratio, {FAMILIES[family]}\n\n"
        "Forward pass of 8 sequences on this machine's CPU, full and pruned models taking turns; a safe ratio of 0 has no "
        "row. The paper's sizes are timed by `aire bench` (docs/performance.md).\n\n" + table(heads, rows)
    )


def ablation_table(wanted: Reproduction, model: ZooModel) -> str:
    """A row per variant, with the difference to aire on the same examples."""
    folder = wanted.ablation_folder(model)
    summary, cells = Summary.load(folder / "summary.json"), read_cells(folder / "cells.jsonl")
    ratios = [ratio for ratio in summary.ratios if ratio]
    rows = []
    for name, curve in summary.variants.items():
        row = [name]
        for ratio in ratios:
            mine, base = (cells[Key(who, ratio, 0)].per_example(summary.examples) for who in (name, "aire"))
            row.append(summary.text(curve.at(ratio).test) + mark(summary, mine, base))
        rows.append(row)
    full = with_interval(summary, summary.full)
    return (
        f"## Ablations, {model.name}\n\nFull model: {full}. ▲ better, ▽ worse than aire on the same examples, p < 0.01.\n\n"
        + table(("variant", *(f"{ratio:.0%}" for ratio in ratios)), rows)
    )
