"""Accuracy of the embedded S5 against the share of states removed, for every reduction: docs/reductions.json and .svg.

    .venv/bin/python tools/reductions_figure.py

The 1,000 embedded test digits judge. The calibrated lines use 256 unlabelled training digits (task smnist, see AIRE_DATA)
and are left out where that data is missing. Nothing is chosen here: every ratio is shown.
"""

from __future__ import annotations

import json
from pathlib import Path

import aireprune
from aireprune import embedded
from aireprune.experiments.charts import line_chart
from aireprune.folders import data_folder
from aireprune.tasks.evaluate import evaluate

RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    model, task = aireprune.load(embedded.MODEL), embedded.digits()
    lines = {
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
            found[name].append(evaluate(aireprune.prune(model, ratio=ratio, **options), task, task.test))
            print(f"{name} {ratio:.0%}: {100 * found[name][-1]:.1f} %", flush=True)
    document = {"full": full, "examples": len(task.test), "ratios": list(RATIOS), "accuracy": found}
    (DOCS / "reductions.json").write_text(json.dumps(document, indent=1) + "\n")
    across = [0.0, *(100 * ratio for ratio in RATIOS)]
    series = {name: (across, [100 * full, *(100 * value for value in values)]) for name, values in found.items()}
    chart = line_chart(
        "Embedded S5, 1,000 test digits", "share of states removed (%)", "accuracy (%)", series, (0, 100)
    )
    (DOCS / "reductions.svg").write_text(chart)


if __name__ == "__main__":
    main()
