"""ONNX files of checkpoints in onnxruntime, beside the same models on our own kernels."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aireprune.bench.model import load_model, random_inputs, short_names
from aireprune.experiments.timing import speedup, take_turns
from aireprune.exports.export import require_libraries
from aireprune.exports.request import ExportRequest
from aireprune.exports.trials import relative

OURS, THEIRS = "our kernels", "onnxruntime"


def bench_export(
    paths: Sequence[Path],
    config: Path | None,
    request: ExportRequest,
    size: tuple[int, int],
    repeats: int,
    threads: int = 1,
) -> dict[str, Any]:
    """Times (median, lower, upper quartile) of every checkpoint in both, taking turns, and what follows from them.

    size: sequences and steps. Of every checkpoint `speedup` is relative to the first one in the same engine, and `ours to
    theirs` how many times longer onnxruntime takes than our kernels. With more than one thread, those of one engine wait
    for work on the cores that the other one runs on.
    """
    require_libraries("onnx")
    batch, length = size
    names = short_names(paths)
    result: dict[str, Any] = {
        "batch": batch,
        "length": length,
        "opset": request.opset,
        "threads": threads,
        "models": {},
    }
    runs: dict[str, Callable[[], object]] = {}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode(), _threads(threads):
        for number, (name, path) in enumerate(zip(names, paths, strict=True)):
            ours, theirs, found = _prepared(path, config, request, size, Path(folder) / f"{number}.onnx")
            runs |= {f"{OURS} {name}": ours, f"{THEIRS} {name}": theirs}
            result["models"][name] = found
        times = take_turns(runs, repeats)
    first = names[0]
    for name, found in result["models"].items():
        found["seconds"] = {engine: _quartiles(times[f"{engine} {name}"]) for engine in (OURS, THEIRS)}
        found["speedup"] = {
            engine: speedup(times[f"{engine} {first}"], times[f"{engine} {name}"]) for engine in (OURS, THEIRS)
        }
        found["ours to theirs"] = speedup(times[f"{THEIRS} {name}"], times[f"{OURS} {name}"])
    return result


def _prepared(
    path: Path, config: Path | None, request: ExportRequest, size: tuple[int, int], target: Path
) -> tuple[Callable[[], object], Callable[[], object], dict[str, Any]]:
    """A run of our kernels, one of onnxruntime on the same inputs, and what is known of the file already."""
    import onnx

    from aireprune.exports.onnx.running import OnnxModel, open_session
    from aireprune.exports.onnx.write import build_graph

    model = load_model(path, config)
    batch, length = size
    x = random_inputs(model, batch, length)
    graph, _ = build_graph(model, request, tokens=not x.is_floating_point())
    onnx.save(graph.model({}), target)
    file = OnnxModel(open_session(target, request.opset, torch.get_num_threads()), model.config)
    ours = (
        partial(model, x, use_cache=False) if type(model).__module__.startswith("transformers") else partial(model, x)
    )
    wanted: Any = ours()
    difference = relative(file(x).numpy(), getattr(wanted, "logits", wanted).numpy())
    return ours, partial(file, x), {"bytes": target.stat().st_size, "difference": difference}


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many for torch and our kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _quartiles(times: np.ndarray) -> tuple[float, float, float]:
    low, middle, high = np.percentile(times, [25, 50, 75])
    return float(middle), float(low), float(high)
