"""What docs/scaling.md is made of: processor seconds per cell of a sweep, per byte of a checkpoint, per calibration token.

    AIRE_DATA=… python tools/scaling.py
    AIRE_DATA=… python tools/scaling.py nodes

One thread, and processor time instead of wall time, so that other work on the machine counts little. With `nodes`, a sweep
on a Ray cluster of one node and then of two, both on this machine and with one CPU each: wall time, and the processor time
of the workers.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import torch

import aireprune
from aireprune.bench.mamba_checkpoint import MambaSize, make_mamba_checkpoint
from aireprune.experiments.judging import Judge
from aireprune.experiments.request import FULL, Cell, make_sweep_request
from aireprune.experiments.variants import Variant
from aireprune.pruning.source import open_file
from aireprune.tasks import load_task

MAMBA = MambaSize(layers=12, d_model=1024, d_inner=2048, n=16, dt_rank=64, vocab=8)
SHARD = 80_000_000  # bytes


def seconds(function, *arguments):
    """Processor seconds of this process, and what the function returns."""
    began = time.process_time()
    found = function(*arguments)
    return time.process_time() - began, found


def sweep_costs() -> None:
    model, task = open_file("zoo:listops-s5").build(), load_task("listops-mini")
    request = make_sweep_request({"ratios": [0.1, 0.5, 0.9]})
    judge, cells = Judge(model, task, request), list(request.cells())
    start, _ = seconds(judge, [FULL])
    alone, _ = seconds(lambda: [judge([cell]) for cell in cells])
    together, _ = seconds(judge, cells)
    pruning, _ = seconds(lambda: [judge._pruner(cell) for cell in cells])
    per = len(cells)
    print(f"first cell of a process, kernels loaded: {start:.2f} s")
    print(
        f"a cell alone: {alone / per:.3f} s; of {per} together: {together / per:.3f} s; its pruning: {pruning / per:.3f} s"
    )
    calibrated = Variant.of("aire", "balanced", True)
    first, _ = seconds(judge._pruner, Cell(calibrated, 0.3))
    more, _ = seconds(judge._pruner, Cell(calibrated, 0.5))
    tokens = request.calibrate_count * task.length
    each = more / tokens * 1e6
    print(f"calibration: {first:.2f} s, another ratio {more:.2f} s; {tokens} tokens, {each:.1f} µs per token")


def node_times() -> None:
    import psutil
    import ray
    from ray.cluster_utils import Cluster

    from aireprune.experiments.on_ray import runner
    from aireprune.experiments.sweep import Setting, run_sweep

    model, task = open_file("zoo:listops-s5").build(), load_task("listops-mini")
    request = make_sweep_request({"ratios": [0.1, 0.5, 0.9]})
    settings = {"num_cpus": 1, "object_store_memory": 80 << 20}
    for count in (1, 2):
        cluster = Cluster(initialize_head=True, connect=False, head_node_args={**settings, "include_dashboard": False})
        for _ in range(count - 1):
            cluster.add_node(**settings)
        nodes = [cluster.head_node, *cluster.worker_nodes]
        raylets = [one.process.pid for node in nodes for one in node.all_processes["raylet"]]
        with tempfile.TemporaryDirectory() as room:
            began = time.perf_counter()
            run_sweep(model, task, request, Path(room), setting=Setting(run=runner(str(cluster.address))))
            wall = time.perf_counter() - began
        workers = [child for raylet in raylets for child in psutil.Process(raylet).children()]
        used = sorted(sum(child.cpu_times()[:2]) for child in workers if "ray::" in " ".join(child.cmdline()))
        each = ", ".join(f"{one:.1f}" for one in used)
        print(
            f"{count} nodes, {len(list(request.cells())) + 1} cells: {wall:.1f} s; processor seconds of workers: {each}"
        )
        ray.shutdown()
        cluster.shutdown()


def byte_costs() -> None:
    with tempfile.TemporaryDirectory() as room:
        source = Path(room) / "in"
        size = make_mamba_checkpoint(source, MAMBA, "float32", SHARD)
        cost, _ = seconds(lambda: aireprune.prune_file(source, Path(room) / "out", ratio=0.5))
        print(f"pruning {size / 1e6:.0f} MB: {cost:.2f} s, {cost / size * 1e9:.2f} s per GB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["nodes"]:
        sys.exit(node_times())
    before = resource.getrusage(resource.RUSAGE_SELF)
    print(f"start: {before.ru_utime + before.ru_stime:.1f} s until everything is imported")
    byte_costs()
    sweep_costs()
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
