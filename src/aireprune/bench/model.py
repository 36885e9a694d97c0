"""Checkpoints side by side: latency, throughput, sizes, memory; for language models prefill and decoding.

Every model runs on the same random inputs. Times are taken in turns in this process; peak memory is that of a process
of its own per model, which loads it and runs the throughput batch once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.experiments.timing import speedup, take_turns
from aireprune.models.accelerate import accelerate
from aireprune.models.s4d import S4DKernel
from aireprune.models.s5 import S5SSM
from aireprune.pruning.source import open_file

_PROBE = """
import json, os, sys
import torch
from aireprune.bench.process import high_water
from aireprune.bench.model import load_model, random_inputs
path, config, batch, length = json.loads(sys.argv[1])
model = load_model(path, config)
before = high_water(os.getpid())
with torch.inference_mode():
    model(random_inputs(model, batch, length))
print(json.dumps([before, high_water(os.getpid())]))
"""


def load_model(path: str | Path, config: str | Path | None = None) -> nn.Module:
    """The checkpoint's model in single precision, in evaluation mode, with the fast scans if it is transformers'."""
    model = open_file(path, config).build().float()
    return accelerate(model) if _is_transformers(model) else model


def random_inputs(model: nn.Module, batch: int, length: int) -> Tensor:
    """What the model takes: tokens (b, L), or numbers (b, L, d_input)."""
    generator = torch.Generator().manual_seed(0)
    config: Any = model.config
    if _is_transformers(model):
        return torch.randint(0, config.vocab_size, (batch, length), generator=generator)
    if getattr(config, "mode", "") == "tokens":
        return torch.randint(0, config.d_input, (batch, length), generator=generator)
    return torch.randn(batch, length, config.d_input, generator=generator)


def bench_model(
    paths: Sequence[Path], config: Path | None, batch: int, length: int, repeats: int, memory: bool = True
) -> dict[str, Any]:
    """Every figure for every checkpoint; times as (median, lower, upper quartile), speedups relative to the first."""
    names = short_names(paths)
    models = {name: load_model(path, config) for name, path in zip(names, paths, strict=True)}
    workloads = {name: _workloads(model, batch, length) for name, model in models.items()}
    result: dict[str, Any] = {"batch": batch, "length": length, "models": {}}
    for name, path in zip(names, paths, strict=True):
        states = sum(layer.states for layer in open_file(path, config).layers)
        result["models"][name] = {
            "parameters": sum(p.numel() for p in models[name].parameters()),
            "bytes": _bytes_on_disk(path),
            "states": states,
            "state bytes per sequence": state_bytes(models[name]),
            "peak memory": _peak(path, config, batch, length) if memory else None,
            "seconds": {},
            "speedup": {},
            "per second": {},
        }
    with torch.no_grad():  # caches are written in place
        for what, first in workloads[names[0]].items():
            times = take_turns({name: workloads[name][what].run for name in names}, repeats)
            for name in names:
                low, middle, high = np.percentile(times[name], [25, 50, 75])
                found = result["models"][name]
                found["seconds"][what] = (float(middle), float(low), float(high))
                found["speedup"][what] = speedup(times[names[0]], times[name])
                if first.units:
                    found["per second"][what] = first.units / float(middle)
    return result


@dataclass(frozen=True)
class _Workload:
    """A run, and how many sequences or tokens it processes (0: only its time counts)."""

    run: Callable[[], object]
    units: int = 0


def _workloads(model: nn.Module, batch: int, length: int) -> dict[str, _Workload]:
    pairs = bool(getattr(model.config, "retrieval", False))
    batch += batch % 2 if pairs else 0  # two documents at a time
    one, many = random_inputs(model, 1, length), random_inputs(model, batch, length)
    if not _is_language_model(model):
        single = one.repeat(2, *(1,) * (one.ndim - 1)) if pairs else one
        return {
            "latency, batch 1": _Workload(partial(model, single)),
            "throughput, sequences": _Workload(partial(model, many), batch),
        }
    prefill = partial(model, use_cache=False) if _is_transformers(model) else model
    return {
        "prefill, batch 1, tokens": _Workload(partial(prefill, one), length),
        f"prefill, batch {batch}, tokens": _Workload(partial(prefill, many), batch * length),
        "decode, batch 1, tokens": _Workload(_decoder(model, one), 1),
        f"decode, batch {batch}, tokens": _Workload(_decoder(model, many), batch),
    }


def _decoder(model: nn.Module, tokens: Tensor) -> Callable[[], object]:
    """One more token for every sequence, after a short prefix."""
    prefix = tokens[:, :8]
    with torch.no_grad():
        if _is_transformers(model):
            cache = model(prefix, use_cache=True).cache_params
            return lambda: model(tokens[:, :1], use_cache=True, cache_params=cache)
        caches = model.new_caches(len(tokens))  # type: ignore[operator]
        model(prefix, caches=caches)
    return lambda: model(tokens[:, :1], caches=caches)


def state_bytes(model: nn.Module) -> int:
    """Bytes of recurrent state that one sequence needs to be continued, in single precision.

    A bidirectional layer counts the states of both directions, though its second one cannot be continued.
    """
    total = 0
    for module in model.modules():
        if isinstance(module, S5SSM):
            total += 2 * module.modes * (2 if module.bidirectional else 1)
        elif isinstance(module, S4DKernel):
            total += 2 * module.A_imag.numel()
        elif hasattr(module, "A_log") and hasattr(module, "conv1d"):
            total += _mamba_states(module) + module.conv1d.weight.numel()  # type: ignore[operator,union-attr]
    return 4 * total


def _mamba_states(mixer: Any) -> int:
    if mixer.A_log.ndim == 2:  # (channels, states)
        return int(mixer.A_log.numel())
    return int(mixer.num_heads * mixer.head_dim * mixer.ssm_state_size)


def _is_transformers(model: nn.Module) -> bool:
    return type(model).__module__.split(".")[0] == "transformers"


def _is_language_model(model: nn.Module) -> bool:
    ours = hasattr(model, "new_caches") and getattr(model.config, "mode", "") == "tokens"
    return ours or (_is_transformers(model) and type(model).__name__.endswith("ForCausalLM"))


def short_names(paths: Sequence[Path]) -> list[str]:
    """Short names that differ: the last part of each path, or the whole path."""
    short = [path.name or str(path) for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _bytes_on_disk(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.is_dir() else path.stat().st_size


def _peak(path: Path, config: Path | None, batch: int, length: int) -> dict[str, int]:
    """Resident memory in bytes: after loading, and at most while it ran once."""
    arguments = json.dumps([str(path), None if config is None else str(config), batch, length])
    done = subprocess.run([sys.executable, "-c", _PROBE, arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AireError(f"{path} could not be run in a process of its own: {done.stderr.strip()[-500:]}")
    loaded, peak = json.loads(done.stdout.splitlines()[-1])
    return {"loaded": loaded, "peak": peak}
