"""A Ray cluster of two nodes on loopback, each with one CPU and a small object store, started and stopped by its users."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

STORE = 80 << 20
SOURCES = str(Path(__file__).parents[1] / "src")


class TwoNodes:
    """cluster.address; kill_worker and kill_node end processes of this cluster alone."""

    def __init__(self) -> None:
        settings = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, connect=False, head_node_args=settings)
        self.second = self._another()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def kill_worker(self) -> None:
        """One that is at work, or has been."""
        titles = {}
        for raylet in self._raylets():
            for process in psutil.Process(raylet).children(recursive=True):
                with suppress(psutil.Error):
                    titles[process.pid] = " ".join(process.cmdline())
        workers = [pid for pid, title in titles.items() if title.startswith(("ray::judge", "ray::IDLE"))]
        assert workers, sorted(titles.values())
        os.kill(max(workers, key=lambda pid: "judge" in titles[pid]), signal.SIGKILL)

    def kill_node(self) -> None:
        """The second one, without a farewell."""
        self.cluster.remove_node(self.second, allow_graceful=False)

    def replace_node(self) -> None:
        self.second = self._another()

    def _another(self) -> Any:
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE)

    def _raylets(self) -> list[int]:
        nodes = [self.cluster.head_node, *self.cluster.worker_nodes]
        return [found.process.pid for node in nodes for found in node.all_processes["raylet"]]


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    os.environ.setdefault("PYTHONPATH", SOURCES)
    nodes = TwoNodes()
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.cluster.shutdown()
