"""The page: tables and figures from the data that `run` and `speed` left, in Markdown with SVG pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aireprune.experiments.figures import curves, profile, save_picture
from aireprune.experiments.paper.markdown import command, kept_reading, table
from aireprune.experiments.paper.models import DROP, EXAMPLES, ZooModel
from aireprune.experiments.paper.paper import safe_in_paper
from aireprune.experiments.paper.reproduction import TABLE_FAMILIES, Reproduction
from aireprune.experiments.paper.seeds import seeds_section
from aireprune.experiments.paper.tables import (
    Summaries,
    ablation_table,
    averages,
    matched_table,
    safe_table,
    speed_table,
)
from aireprune.experiments.stored import number, read_object, text, understood
from aireprune.files.writing.atomic import atomic_path
from aireprune.training.recipes import hyperparameters, training_recipe

SIZES = {
    "layers": "layers",
    "h": "features",
    "n": "states",
    "blocks": "blocks",
    "dropout": "dropout",
}  # flags of aire train
OPTIONS = ("epochs", "batch", "lr", "ssm_lr", "weight_decay", "examples", "hankel", "augment", "start")  # and these


def render(wanted: Reproduction) -> Path:
    """Write OUT/results.md and the pictures. What stands between the marks of the reading is kept."""
    summaries = {model.name: wanted.summary(model) for model in wanted.models} if wanted.sweeps else {}
    parts = [_head(wanted.recipe), kept_reading(wanted.page), _models(wanted), *_sections(wanted, summaries)]
    with atomic_path(wanted.page) as temporary:
        temporary.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    return wanted.page


def _sections(wanted: Reproduction, summaries: Summaries) -> list[str]:
    parts = []
    for item in ("table1", "table2"):
        if item in wanted.items:
            parts += [safe_table(item, family, wanted, summaries) for family in TABLE_FAMILIES[item]]
    if wanted.items & {"table1", "table2"}:
        parts.append(matched_table(wanted, summaries))
    if "averages" in wanted.items:
        parts.append(averages(wanted, summaries))
    parts += [speed_table(item, wanted, summaries) for item in ("table3", "table5") if item in wanted.items]
    if "curves" in wanted.items:
        parts.append(
            _pictures(
                "Accuracy against ratio",
                "curves",
                wanted,
                lambda m: curves(summaries[m.name], m.name, safe_in_paper(m.family, m.base)),
            )
        )
    if "profiles" in wanted.items:
        parts.append(
            _pictures(
                "Layer profiles of method aire",
                "profile",
                wanted,
                lambda m: profile(summaries[m.name], "aire", f"{m.name}, method aire"),
            )
        )
    return [*parts, *(ablation_table(wanted, model) for model in wanted.ablated), seeds_section(wanted)]


def _head(recipe: str) -> str:
    validation, test = EXAMPLES[recipe]
    counts = f"at most {validation:,} validation and {test:,} test examples" if test else "all examples"
    drop, made = f"{DROP[recipe]:g}", command("aire reproduce all", {"recipe": recipe})
    return f"""# Results

Made by `{made} -o docs` from the models of `aire zoo`; the data is in `docs/results`. Nothing is
retrained. Safe ratio: the largest of 10, 20, … 90 % that costs at most {drop} points of accuracy ({drop} % of the bits per
byte) on validation examples, with every smaller ratio within the bound too. Everything shown is measured on test examples
that no choice has seen ({counts}); brackets are 95 % intervals. The paper's figures are of another scale
(Long Range Arena, models of up to 512 features, an H100) and stand beside ours only for the pattern."""


def _models(wanted: Reproduction) -> str:
    """How the models were trained, where they came with that."""
    rows = []
    for model in wanted.every:
        training = wanted.path(model) / "training.json"
        if training.is_file():
            with understood(training, "does not say how the model was trained; delete it, or train the model again"):
                rows.append(_training(model, wanted.recipe, training))
    heads = ("model", "task", "epochs", "validation", "test (whole split)", "wall time", "made by")
    return "## Models\n\n" + table(heads, rows)


def _training(model: ZooModel, recipe: str, path: Path) -> list[str]:
    run = read_object(path)
    best, test = number(run["history"][-1]["validation"]), number(run["test"])
    bits = run.get("metric") == "bits per byte"
    made = {"family": model.family, "recipe": recipe, **_otherwise(model, recipe, run)}
    return [
        model.name,
        text(run["task"]),
        str(run["recipe"]["epochs"]),
        f"{best:.3f}" if bits else f"{100 * best:.2f} %",
        f"{test:.3f} bits per byte" if bits else f"{100 * test:.2f} %",
        f"{number(run['seconds']) / 60:.0f} min",
        f"`{command(f'aire train {model.base}', made)}`",
    ]


def _otherwise(model: ZooModel, recipe: str, run: Mapping[str, Any]) -> dict[str, object]:
    """The options by which a run differed from its recipe, and its seed."""
    listed = asdict(training_recipe(model.base, model.family, recipe))
    row, config, used = asdict(hyperparameters(model.base, model.family, recipe)), run.get("config", {}), run["recipe"]
    # the sizes of a model that has no size of its own are its family's
    flags = SIZES if model.size else {"dropout": "dropout"}
    sizes = {flag: config[key] for key, flag in flags.items() if key in config and config[key] != row[key]}
    options = {name.replace("_", "-"): used[name] for name in OPTIONS if used.get(name, listed[name]) != listed[name]}
    return {**sizes, **options, "seed": used["seed"]}


def _pictures(title: str, kind: str, wanted: Reproduction, draw: Callable[[ZooModel], str]) -> str:
    """A picture of every model, in results/NAME/KIND.svg."""
    lines = [f"## {title}"]
    for model in wanted.models:
        save_picture(wanted.sweep_folder(model) / f"{kind}.svg", draw(model))
        lines.append(f"![{title}, {model.name}]({wanted.data.name}/{model.name}/{kind}.svg)")
    return "\n\n".join(lines)
