"""How long pruning a large sharded checkpoint takes and how much memory, against copying the same directory with cp.

The checkpoint has the names, shapes and sizes of Mamba-2.8B. Its large matrices repeat one block of random numbers
(their values play no role), the arrays of the state space layers are made as an untrained model has them.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.errors import AireError
from aireprune.files.atomic import atomic_folder, remove
from aireprune.files.dtypes import encode
from aireprune.files.safetensors_header import Entry, header_bytes

CODES = {"float16": "F16", "float32": "F32", "bfloat16": "BF16"}
BLOCK = 1 << 20  # elements of the random block that large matrices repeat

Shapes = dict[str, tuple[int, ...]]


def make_mamba_checkpoint(
    folder: Path,
    layers: int = 64,
    d_model: int = 2560,
    d_inner: int = 5120,
    n: int = 16,
    dt_rank: int = 160,
    vocab: int = 50280,
    conv: int = 4,
    dtype: str = "float16",
    shard_bytes: int = 2_000_000_000,
    seed: int = 0,
    overwrite: bool = False,
) -> int:
    """Write a Hugging Face Mamba checkpoint in shards of about `shard_bytes`; returns the bytes of its tensors."""
    code, rng = CODES[dtype], np.random.default_rng(seed)
    shapes = _shapes(layers, d_model, d_inner, n, dt_rank, vocab, conv)
    item = 4 if code == "F32" else 2
    block = encode(rng.normal(0, 0.02, BLOCK).astype(np.float32), code, "block")
    shards = list(_split(shapes, item, shard_bytes))
    with atomic_folder(folder, overwrite) as temporary:
        weight_map: dict[str, str] = {}
        for number, shard in enumerate(shards, 1):
            file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            weight_map.update(dict.fromkeys(shard, file))
            _write_shard(temporary / file, shard, code, item, block, n, rng)
        total = sum(prod(shape) * item for shape in shapes.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (temporary / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
        config = _config(layers, d_model, d_inner, n, dt_rank, vocab, conv, dtype)
        (temporary / "config.json").write_text(json.dumps(config, indent=2))
    return total


def bench_checkpoint(
    source: Path,
    command: Callable[[Path, Path], Sequence[str]],
    workdir: Path,
    repeats: int = 4,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Time `cp -r source target` and `command(source, target)` in turn, and the peak memory of the latter.

    Both run as processes of their own, in alternating order. Before each run the source is read once so that it is
    in the page cache alike for both, earlier output is deleted, and dirty pages are on disk. Times are until the
    process ends, as a user sees it. The first pair only warms up and is not counted. The ratio is the median over
    neighbouring runs, which share what else the machine was doing.
    """
    copies: list[float] = []
    prunes: list[float] = []
    peak = 0
    workdir.mkdir(parents=True, exist_ok=True)
    for number in range(-1, repeats):
        turns = ["cp", "prune"] if number % 2 == 0 else ["prune", "cp"]
        for turn in turns:
            target = workdir / f"bench-{turn}-{os.getpid()}"
            todo = ["cp", "-r", str(source), str(target)] if turn == "cp" else list(command(source, target))
            _settle(source)
            try:
                seconds, resident = _run(todo)
            finally:
                remove(target)
            if number < 0:
                continue
            progress(f"{turn} {seconds:.2f} s, peak {resident / 1e6:.0f} MB")
            (copies if turn == "cp" else prunes).append(seconds)
            peak = max(peak, resident) if turn == "prune" else peak
    return {
        "bytes": sum(path.stat().st_size for path in source.rglob("*") if path.is_file()),
        "cp_seconds": copies,
        "prune_seconds": prunes,
        "ratio": statistics.median(prune / copy for prune, copy in zip(prunes, copies, strict=True)),
        "ratio_of_best": min(prunes) / min(copies),
        "peak_rss_bytes": peak,
        "free_bytes": shutil.disk_usage(workdir).free,
    }


def _run(command: Sequence[str]) -> tuple[float, int]:
    """Wall time and peak resident memory (bytes) of a process.

    The peak that wait4 reports counts the process from before it became the command, when it still was a copy of this
    one. Where the system keeps the peak of the command itself (Linux: VmHWM), that is read while it runs.
    """
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        peak = 0
        while True:
            peak = max(peak, high_water(process.pid))
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.005)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            message = errors.read().decode(errors="replace").strip()
            raise AireError(f"{' '.join(command)} failed: {message[-500:]}")
    return seconds, peak or usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def high_water(pid: int) -> int:
    """Peak resident memory of a process in bytes, where the system keeps it (Linux); else 0."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def _settle(source: Path) -> None:
    """Pending writes to disk, the source into the page cache."""
    os.sync()
    for path in sorted(source.iterdir()):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass


def _shapes(layers: int, d_model: int, d_inner: int, n: int, dt_rank: int, vocab: int, conv: int) -> Shapes:
    shapes: Shapes = {"backbone.embeddings.weight": (vocab, d_model)}
    for layer in range(layers):
        prefix = f"backbone.layers.{layer}."
        shapes |= {
            prefix + "mixer.A_log": (d_inner, n),
            prefix + "mixer.D": (d_inner,),
            prefix + "mixer.conv1d.bias": (d_inner,),
            prefix + "mixer.conv1d.weight": (d_inner, 1, conv),
            prefix + "mixer.dt_proj.bias": (d_inner,),
            prefix + "mixer.dt_proj.weight": (d_inner, dt_rank),
            prefix + "mixer.in_proj.weight": (2 * d_inner, d_model),
            prefix + "mixer.out_proj.weight": (d_model, d_inner),
            prefix + "mixer.x_proj.weight": (dt_rank + 2 * n, d_inner),
            prefix + "norm.weight": (d_model,),
        }
    return shapes | {"backbone.norm_f.weight": (d_model,)}


def _split(shapes: Shapes, item: int, shard_bytes: int) -> Iterator[Shapes]:
    shard: Shapes = {}
    size = 0
    for name, shape in shapes.items():
        if shard and size + prod(shape) * item > shard_bytes:
            yield shard
            shard, size = {}, 0
        shard[name] = shape
        size += prod(shape) * item
    yield shard


def _write_shard(
    path: Path, shapes: Shapes, code: str, item: int, block: np.ndarray, n: int, rng: np.random.Generator
) -> None:
    entries: dict[str, Entry] = {}
    place = 0
    for name, shape in shapes.items():
        entries[name] = Entry(code, shape, place, place + prod(shape) * item)
        place += prod(shape) * item
    with path.open("xb") as out:
        out.write(header_bytes(entries, {"format": "pt"}, align=8))  # as the reference implementation does
        for name, entry in entries.items():
            sane = _sane(name, entry.shape, n, rng)
            if sane is not None:
                out.write(encode(sane, code, name).data)
                continue
            for start in range(0, entry.size, block.size):
                out.write(block[: entry.size - start].data)


def _sane(name: str, shape: tuple[int, ...], n: int, rng: np.random.Generator) -> np.ndarray | None:
    """Values of an untrained Mamba where they matter; None for large matrices."""
    if name.endswith("A_log"):
        values = np.broadcast_to(np.log(np.arange(1, n + 1)), shape)
    elif name.endswith("dt_proj.bias"):
        step = np.exp(rng.uniform(np.log(1e-3), np.log(1e-1), shape))
        values = step + np.log(-np.expm1(-step))  # softplus of it is the step
    elif name.endswith((".D", "norm.weight", "norm_f.weight")):
        values = np.ones(shape)
    elif name.endswith(("x_proj.weight", "dt_proj.weight", "conv1d.weight", "conv1d.bias")):
        values = rng.uniform(-1, 1, shape) / np.sqrt(shape[-1])
    else:
        return None
    return np.asarray(values, np.float32)


def _config(
    layers: int, d_model: int, d_inner: int, n: int, dt_rank: int, vocab: int, conv: int, dtype: str
) -> dict[str, Any]:
    return {
        "architectures": ["MambaForCausalLM"],
        "model_type": "mamba",
        "hidden_size": d_model,
        "intermediate_size": d_inner,
        "expand": d_inner // d_model,
        "state_size": n,
        "time_step_rank": dt_rank,
        "num_hidden_layers": layers,
        "conv_kernel": conv,
        "vocab_size": vocab,
        "tie_word_embeddings": True,
        "use_bias": False,
        "use_conv_bias": True,
        "torch_dtype": dtype,
    }
