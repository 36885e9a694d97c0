"""What shorter rows save of a pruned S4D file and what they cost: the public S4D on sequential CIFAR-10 in colour.

AIRE_DATA=FOLDER .venv/bin/python tools/s4d_rows.py FOLDER/checkpoints/s4d_scifar_rgb.pth [IMAGES]

"free" files follow a plan that does not know about rows, "short" ones are what `prune_file` writes, and "own" is a
folder in our own format (its model.safetensors and config.json).
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import aireprune
from aireprune.errors import Notice
from aireprune.tasks import load_task
from aireprune.tasks.evaluate import evaluate

POST_NORM = {"prenorm": False}  # which the file does not say


def size(written: Path) -> int:
    """Bytes of the weights and what is needed to read them."""
    files = [written] if written.is_file() else [written / "model.safetensors", written / "config.json"]
    return sum(file.stat().st_size for file in files)


def main() -> None:
    warnings.simplefilter("ignore", Notice)
    task = load_task("scifar_rgb")
    source, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500
    images = task.test.rows(slice(0, count))
    accuracy = evaluate(aireprune.load(source, POST_NORM), task, images)
    print(f"full: {size(source)} bytes, {accuracy:.1%} of {len(images)} images")
    for reduce in ("truncate", "balanced"):
        for ratio in (0.3, 0.5, 0.8, 0.9):
            plan = aireprune.plan(source, ratio=ratio, reduce=reduce, layout="adaptive")
            for name, given in (("free.pth", plan), ("short.pth", None), ("own", plan)):
                with tempfile.TemporaryDirectory() as folder:
                    target = Path(folder) / name
                    choices = {} if given else {"ratio": ratio, "reduce": reduce, "layout": "adaptive"}
                    aireprune.prune_file(source, target, given, config=POST_NORM, **choices)  # type: ignore[arg-type]
                    accuracy = evaluate(aireprune.load(target), task, images)
                    print(f"{reduce:9}{ratio:4.0%}  {target.stem:6}{size(target):8} bytes {accuracy:6.1%}", flush=True)


if __name__ == "__main__":
    main()
