"""Accuracy of the embedded S5 against the share of states removed, for every reduction: docs/reductions.json and .svg.

reductions-dark.svg is the same for dark pages; the README opens with the two.

    .venv/bin/python tools/reductions_figure.py            # measure and draw
    .venv/bin/python tools/reductions_figure.py --draw     # draw what docs/reductions.json holds

The 1,000 embedded test digits judge. The calibrated lines use 256 unlabelled training digits (task smnist, see AIRE_DATA)
and are left out where that data is missing. Nothing is chosen here: every ratio is shown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import aireprune
from aireprune import drawing, embedded
from aireprune.folders import data_folder
from aireprune.tasks.evaluate import evaluate

RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DOCS = Path(__file__).resolve().parents[1] / "docs"
INKS = {
    "truncate (aire)": drawing.AIRE,
    "refit": drawing.COLOURS["aire+refit"],
    "balanced": drawing.COLOURS["balanced"],
    "truncate + calibrated": drawing.COLOURS["last"],
    "balanced + calibrated": drawing.COLOURS["balanced+calibrated"],
}
DARK = {
    "fill: #ffffff": "fill: none",
    drawing.INK: "#e6edf3",
    drawing.FAINT: "#57606a",
    drawing.GRID: "#2d333b",
    drawing.AIRE: "#ff7b4a",
    drawing.COLOURS["aire+refit"]: "#d29bff",
    drawing.COLOURS["balanced"]: "#6cb0ff",
    drawing.COLOURS["last"]: "#6fcf7f",
    drawing.COLOURS["balanced+calibrated"]: "#3fd0dd",
}


def main() -> None:
    data = DOCS / "reductions.json"
    if "--draw" not in sys.argv:
        data.write_text(json.dumps(measure(), indent=1) + "\n")
    picture = draw(json.loads(data.read_text()))
    (DOCS / "reductions.svg").write_text(picture)
    (DOCS / "reductions-dark.svg").write_text(darkened(picture))


def measure() -> dict[str, Any]:
    """The accuracy of every reduction at every ratio."""
    model, task = aireprune.load(embedded.MODEL), embedded.digits()
    lines: dict[str, Any] = {
        "truncate (aire)": {"reduce": "truncate"},
        "refit": {"reduce": "refit"},
        "balanced": {"reduce": "balanced"},
    }
    if (data_folder() / "mnist.npz").is_file():
        lines["truncate + calibrated"] = {"reduce": "truncate", "calibrate": "smnist"}
        lines["balanced + calibrated"] = {"reduce": "balanced", "calibrate": "smnist"}
    full = evaluate(model, task, task.test)
    found: dict[str, list[float]] = {}
    for name, options in lines.items():
        found[name] = []
        for ratio in RATIOS:
            small = aireprune.prune(model, method="aire", ratio=ratio, **options)
            found[name].append(evaluate(small, task, task.test))
            print(f"{name} {ratio:.0%}: {100 * found[name][-1]:.1f} %", flush=True)
    return {"full": full, "examples": len(task.test), "ratios": list(RATIOS), "accuracy": found}


def draw(document: dict[str, Any]) -> str:
    """The figure as SVG."""
    with drawing.styled():
        axes = drawing.new_axes()
        across = [0.0, *(100 * ratio for ratio in document["ratios"])]
        ends = {}
        for name, values in document["accuracy"].items():
            up = [100 * document["full"], *(100 * value for value in values)]
            axes.plot(across, up, color=INKS[name], linewidth=2.8 if name == "truncate (aire)" else 1.6)
            ends[name] = (across[-1], up[-1])
        axes.set_xlim(-1, 91)
        axes.set_ylim(0, 102)
        axes.set_xlabel("states removed (%)")
        axes.set_ylabel("test accuracy (%)")
        axes.set_title(f"Embedded S5, {document['examples']:,} test digits")
        figure = axes.get_figure(root=True)
        assert figure is not None
        drawing.name_lines(axes, ends, INKS, bold="truncate (aire)")
        drawing.leave_room(axes, {name: name == "truncate (aire)" for name in ends})
        return drawing.as_svg(figure)


def darkened(picture: str) -> str:
    """The same figure with light ink and brighter lines."""
    for light, dark in DARK.items():
        picture = picture.replace(light, dark)
    return picture


if __name__ == "__main__":
    main()
