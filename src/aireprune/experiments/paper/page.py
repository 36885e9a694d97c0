"""The page: tables and figures from the data that `run` left, in Markdown with SVG pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.experiments.figures import curves, profile, value_of
from aireprune.experiments.paper import paper
from aireprune.experiments.paper.models import ABLATED, DROP, EXAMPLES, METHODS, Entry
from aireprune.experiments.statistics import paired_p_value
from aireprune.experiments.sweep import read_cells, unpack
from aireprune.files.atomic import atomic_path

MATCHED = 0.5
BEGIN, END = "<!-- reading -->", "<!-- end of reading -->"
FAMILIES = {"s5": "S5", "s4d": "S4D", "mamba": "Mamba"}
Summaries = Mapping[str, Mapping[str, Any]]


def render(items: Sequence[str], entries: Sequence[Entry], recipe: str, zoo: Path, out: Path) -> Path:
    """Write OUT/results.md and the pictures. What stands between the marks of the reading is kept."""
    data, page = out / "results", out / "results.md"
    wanted = set(items)
    summaries = {
        entry.name: json.loads((data / entry.name / "summary.json").read_text())
        for entry in entries
        if wanted != {"ablations"}
    }
    parts = [_head(recipe), _reading(page), _models(entries, recipe, zoo)]
    for item, families in (("table1", ("s5",)), ("table2", ("s4d", "mamba"))):
        if item in wanted:
            parts += [_safe(item, family, entries, summaries) for family in families]
    if wanted & {"table1", "table2"}:
        parts.append(_matched(entries, summaries, data))
    if "averages" in wanted:
        parts.append(_averages(entries, summaries))
    for item, family in (("table3", "s5"), ("table5", "mamba")):
        if item in wanted:
            parts.append(_speed(item, family, entries, summaries, data))
    if "curves" in wanted:
        parts.append(_pictures("Accuracy against ratio", entries, data, _curves(entries, summaries)))
    if "profiles" in wanted:
        parts.append(_pictures("Layer profiles of method aire", entries, data, _profiles(entries, summaries)))
    if "ablations" in wanted:
        parts += [_ablation(entry, data) for entry in entries if entry.name in ABLATED]
    with atomic_path(page) as temporary:
        temporary.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    return page


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _head(recipe: str) -> str:
    validation, test = EXAMPLES[recipe]
    counts = f"at most {validation:,} validation and {test:,} test examples" if test else "all examples"
    drop = f"{DROP[recipe]:g}"
    return f"""# Results

Made by `aire reproduce all --recipe {recipe} -o docs` from the models in `zoo/`; the data is in `docs/results`. Nothing is
retrained. Safe ratio: the largest of 10, 20, … 90 % that costs at most {drop} points of accuracy ({drop} % of the bits per
byte) on validation examples, with every smaller ratio within the bound too. Everything shown is measured on test examples
that no choice has seen ({counts}); brackets are 95 % intervals. The paper's figures are of another scale
(Long Range Arena, models of up to 512 features, an H100) and stand beside ours only for the pattern."""


def _reading(page: Path) -> str:
    """What a person wrote between the marks, as it is; empty marks on a new page."""
    text = page.read_text() if page.is_file() else ""
    inside = text.split(BEGIN, 1)[1].split(END, 1)[0].strip() if BEGIN in text and END in text else ""
    return f"{BEGIN}\n{inside}\n{END}"


def _models(entries: Sequence[Entry], recipe: str, zoo: Path) -> str:
    rows = []
    for entry in entries:
        path = entry.path(zoo, recipe)
        training = path / "training.json"
        if not training.is_file():
            continue
        run = json.loads(training.read_text())
        result = (
            f"{run['test']:.3f} bits per byte" if run.get("metric") == "bits per byte" else f"{100 * run['test']:.2f} %"
        )
        best = run["history"][-1]["validation"]
        shown = f"{best:.3f}" if run.get("metric") == "bits per byte" else f"{100 * best:.2f} %"
        command = f"`aire train {entry.base} --family {entry.family} --recipe {recipe} --seed {run['recipe']['seed']}`"
        rows.append(
            [
                entry.name,
                run["task"],
                str(run["recipe"]["epochs"]),
                shown,
                result,
                f"{run['seconds'] / 60:.0f} min",
                command,
            ]
        )
    heads = ("model", "task", "epochs", "validation", "test (whole split)", "wall time", "made by")
    return "## Models\n\n" + _table(heads, rows)


def _show(summary: Mapping[str, Any], value: float) -> str:
    return f"{value_of(summary, value):.{1 if summary['metric'] == 'accuracy' else 3}f}"


def _with_interval(summary: Mapping[str, Any], point: Mapping[str, Any]) -> str:
    low, high = (_show(summary, bound) for bound in point["interval"])
    return f"{_show(summary, point['test'])} [{low}, {high}]"


def _safe(item: str, family: str, entries: Sequence[Entry], summaries: Summaries) -> str:
    """Table 1 or 2: a row per variant, ratio and metric per model, then the paper's rows."""
    chosen = [entry for entry in entries if entry.family == family]
    if not chosen:
        return ""
    rows = [["full model", *(_with_interval(s, s["full"]) for s in (summaries[e.name] for e in chosen))]]
    for name in summaries[chosen[0].name]["variants"]:
        cells = []
        for entry in chosen:
            summary = summaries[entry.name]
            safe = summary["variants"][name]["safe"]
            cells.append(f"{safe['ratio']:.0%}: {_with_interval(summary, safe)}")
        rows.append([name, *cells])
    for method in ("full", *METHODS):
        cells = []
        for entry in chosen:
            found = paper.reported(family, method, entry.base)
            cells.append("–" if found is None else f"{found[0]:g}%: {found[1]:.2f}")
        if any(cell != "–" for cell in cells):
            rows.append([f"*paper, {FAMILIES[family]} at its scale: {method}*", *cells])
    title = f"## {item.replace('table', 'Table ')}: safe ratio and result, {FAMILIES[family]}"
    return title + "\n\n" + _table(("variant", *(entry.name for entry in chosen)), rows)


def _matched(entries: Sequence[Entry], summaries: Summaries, data: Path) -> str:
    """Every variant at the same ratio; stars where it differs from aire on the same examples."""
    names = list(dict.fromkeys(name for entry in entries for name in summaries[entry.name]["variants"]))
    answers = {
        entry.name: {
            name: unpack(row["answers"], summaries[entry.name]["examples"])
            for (name, ratio, seed), row in read_cells(data / entry.name / "cells.jsonl").items()
            if ratio == MATCHED and seed == 0
        }
        for entry in entries
    }
    rows = []
    for name in names:
        cells = []
        for entry in entries:
            summary, found = summaries[entry.name], answers[entry.name]
            if name not in found:
                cells.append("–")
                continue
            point = next(p for p in summary["variants"][name]["points"] if p["ratio"] == MATCHED)
            p_value = paired_p_value(found[name], found["aire"])
            better = (found[name].mean() > found["aire"].mean()) == (summary["metric"] == "accuracy")
            mark = "" if p_value >= 0.01 else " ▲" if better else " ▽"
            spread = "" if point["sd"] is None else f" ± {_show(summary, point['sd'])}"
            cells.append(_show(summary, point["test"]) + spread + mark)
        rows.append([name, *cells])
    return (
        f"## All variants at the same ratio, {MATCHED:.0%}\n\n▲ better, ▽ worse than aire on the same test examples, "
        "p < 0.01 (McNemar's exact test; for bits per byte a paired test). Random: mean ± deviation over three seeds, "
        "compared by its first.\n\n" + _table(("variant", *(entry.name for entry in entries)), rows)
    )


def _loss(summary: Mapping[str, Any], point: Mapping[str, Any]) -> float:
    """Points of accuracy lost, or per cent of bits per byte gained."""
    full = summary["full"]["test"]
    return 100 * (full - point["test"] if summary["metric"] == "accuracy" else point["test"] / full - 1)


def _averages(entries: Sequence[Entry], summaries: Summaries) -> str:
    """Mean safe ratio and mean loss at matched ratios over the models of a family, and the paper's S5 averages."""
    parts = []
    for family in dict.fromkeys(entry.family for entry in entries):
        chosen = [summaries[entry.name] for entry in entries if entry.family == family and entry.base != "lm"]
        rows = []
        for name in chosen[0]["variants"]:
            found = [summary["variants"][name] for summary in chosen]
            losses = [
                [
                    _loss(s, next(p for p in v["points"] if p["ratio"] == ratio))
                    for s, v in zip(chosen, found, strict=True)
                ]
                for ratio in (0.3, 0.5, 0.7)
            ]
            row = [
                name,
                f"{100 * np.mean([v['safe']['ratio'] for v in found]):.0f} %",
                f"{np.mean([_loss(s, v['safe']) for s, v in zip(chosen, found, strict=True)]):.2f}",
                *(f"{np.mean(values):.1f}" for values in losses),
            ]
            table = paper.TABLE1 if family == "s5" else paper.TABLE2[family]
            row.append(_paper_average(table, name))
            rows.append(row)
        heads = (
            "variant",
            "mean safe ratio",
            "loss there",
            "loss at 30 %",
            "at 50 %",
            "at 70 %",
            "paper, its scale: ratio, loss",
        )
        count = f"{len(chosen)} model{'s' if len(chosen) > 1 else ''}"
        parts.append(f"### {FAMILIES[family]}, {count}\n\n" + _table(heads, rows))
    return "## Averages: ratio, and points of accuracy lost\n\n" + "\n\n".join(parts)


def _paper_average(table: Mapping[str, Mapping[str, tuple[float, float]]], name: str) -> str:
    if name not in table:
        return "–"
    ratios = [ratio for ratio, _ in table[name].values()]
    losses = [table["full"][task][1] - value for task, (_, value) in table[name].items()]
    return f"{np.mean(ratios):.0f} %, {np.mean(losses):.2f}"


def _speed(item: str, family: str, entries: Sequence[Entry], summaries: Summaries, data: Path) -> str:
    reported = paper.TABLE3 if item == "table3" else paper.TABLE5
    rows = []
    for entry in entries:
        if entry.family != family:
            continue
        summary, found = summaries[entry.name], json.loads((data / entry.name / "speed.json").read_text())
        for name, times in found.items():
            if not isinstance(times, dict):
                continue
            safe = summary["variants"][name]["safe"]
            saved = 1 - safe["parameters"] / summary["full"]["parameters"]
            low, high = times["quartiles"]
            beside = reported.get(entry.base)
            rows.append(
                [
                    f"{entry.name}, {name}",
                    f"{safe['ratio']:.0%}",
                    f"{times['speedup']:.2f} ({low:.2f} to {high:.2f})",
                    f"{saved:.1%}",
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
        "row. The paper's sizes are timed by `aire bench` (docs/performance.md).\n\n" + _table(heads, rows)
    )


def _curves(entries: Sequence[Entry], summaries: Summaries) -> dict[str, str]:
    return {entry.name: curves(summaries[entry.name], entry.name) for entry in entries}


def _profiles(entries: Sequence[Entry], summaries: Summaries) -> dict[str, str]:
    return {entry.name: profile(summaries[entry.name], "aire", f"{entry.name}, method aire") for entry in entries}


def _pictures(title: str, entries: Sequence[Entry], data: Path, pictures: Mapping[str, str]) -> str:
    kind = "curves" if title.startswith("Accuracy") else "profile"
    lines = [f"## {title}"]
    for entry in entries:
        path = data / entry.name / f"{kind}.svg"
        with atomic_path(path) as temporary:
            temporary.write_text(pictures[entry.name])
        lines.append(f"![{title}, {entry.name}]({data.name}/{entry.name}/{kind}.svg)")
    return "\n\n".join(lines)


def _ablation(entry: Entry, data: Path) -> str:
    """A row per variant, with the difference to aire on the same examples."""
    folder = data / "ablations" / entry.name
    summary = json.loads((folder / "summary.json").read_text())
    cells = read_cells(folder / "cells.jsonl")
    ratios = [p["ratio"] for p in next(iter(summary["variants"].values()))["points"] if p["ratio"]]
    rows = []
    for name, variant in summary["variants"].items():
        row = [name]
        for point in variant["points"]:
            if not point["ratio"]:
                continue
            mine, base = (
                unpack(cells[who, point["ratio"], 0]["answers"], summary["examples"]) for who in (name, "aire")
            )
            mark = "" if paired_p_value(mine, base) >= 0.01 else " ▲" if mine.mean() > base.mean() else " ▽"
            row.append(_show(summary, point["test"]) + mark)
        rows.append(row)
    full = _with_interval(summary, summary["full"])
    return (
        f"## Ablations, {entry.name}\n\nFull model: {full}. ▲ better, ▽ worse than aire on the same examples, p < 0.01.\n\n"
        + _table(("variant", *(f"{ratio:.0%}" for ratio in ratios)), rows)
    )
