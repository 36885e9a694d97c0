"""A Ray cluster: connected to, found to run what we run, and given tasks that survive lost workers and nodes."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Generator, Iterable
from typing import Any

from aireprune.errors import AireError
from aireprune.extras import extra
from aireprune.version import VERSION

RETRIES = 5  # of a task whose worker or node was lost
ANSWER = 5.0  # seconds in which the cluster has to be reached
SECONDS = 60.0  # that a node may take to say what it runs
SETTINGS = b"\x04"  # the kind of frame that opens a connection of HTTP/2, which Ray's servers speak
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + SETTINGS + b"\0\0\0\0\0"


def connect(address: str) -> Any:
    """Ray, connected to the cluster: 'auto' for the one that this machine belongs to, or HOST:PORT."""
    ray = extra("ray", "ray=", "ray")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do anyway, without its warning
    if not ray.is_initialized():
        try:
            _knock(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env=_environment())
        except (OSError, RuntimeError, ValueError) as problem:
            raise AireError(
                f"There is no Ray cluster at {address!r} that can be used ({_first_line(problem)}). Start one, and "
                "give the HOST:PORT of its head, or do without ray=."
            ) from None
    _check_nodes(ray)
    return ray


def _knock(address: str) -> None:
    """OSError if nobody listens at HOST:PORT, or not Ray: it would wait for minutes. 'auto' and the like are left to it."""
    host, separator, port = address.removeprefix("ray://").rpartition(":")
    if not separator or not port.isdecimal():
        return
    if int(port) >= 1 << 16:
        raise ValueError(f"there is no port {port}")
    with socket.create_connection((host, int(port)), timeout=ANSWER) as line:
        if os.environ.get("RAY_USE_TLS") == "1":
            return
        line.sendall(GREETING)
        answer = line.recv(9)  # a frame: length (3 bytes), kind, flags, stream (4)
    if answer[3:4] != SETTINGS:
        raise OSError("what listens there is not Ray")


def cpus(ray: Any) -> int:
    """Of the whole cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def completed(ray: Any, tasks: Iterable[Any]) -> Generator[Any, None, None]:
    """What the tasks return, as they end. Those that are left when nobody asks any more are cancelled."""
    waiting = list(tasks)
    try:
        while waiting:
            (done, *_), waiting = ray.wait(waiting, num_returns=1)
            yield result(ray, done)
    finally:
        for task in waiting:
            ray.cancel(task, force=True)


def result(ray: Any, task: Any) -> Any:
    """What a task returns; our own errors are raised as they are, with the node they come from."""
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as problem:
        if isinstance(problem.cause, AireError):
            raise AireError(f"On a node of the cluster: {problem.cause}") from None
        raise AireError(f"A task of the cluster failed: {_first_line(problem.cause)}.") from None
    except ray.exceptions.RayError as problem:
        raise AireError(
            f"Workers of the cluster were lost {RETRIES} times ({type(problem).__name__}). What is done is kept: run the "
            "same command again."
        ) from None


def _environment() -> dict[str, Any]:
    """What workers are given: the same places to look for this package and for data."""
    names = ("PYTHONPATH", "AIRE_DATA")
    return {"env_vars": {name: os.environ[name] for name in names if name in os.environ}}


def _check_nodes(ray: Any) -> None:
    """Raise unless every node has this version of the package, and the same versions of what its results depend on."""
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    ask = ray.remote(num_cpus=0, max_retries=RETRIES)(versions)
    asked = [
        (node["NodeManagerAddress"], ask.options(scheduling_strategy=strategy(node["NodeID"], soft=True)).remote())
        for node in ray.nodes()
        if node["Alive"]
    ]
    mine = versions()
    for address, answer in asked:
        try:
            theirs = ray.get(answer, timeout=SECONDS)
        except ray.exceptions.RayError as problem:
            raise AireError(
                f"The node {address} of the cluster cannot run aireprune ({_first_line(problem)}). Install aireprune "
                f"{VERSION} on it."
            ) from None
        for name, version in mine.items():
            if theirs.get(name) != version:
                raise AireError(
                    f"The node {address} of the cluster has {name} {theirs.get(name)}, this process {version}: their "
                    "rows could differ. Install the same version on both."
                )


def versions() -> dict[str, str]:
    """Of everything that the last digits of a result depend on."""
    import numpy
    import torch

    python = ".".join(platform.python_version_tuple()[:2])
    return {"aireprune": VERSION, "Python": python, "numpy": numpy.__version__, "torch": str(torch.__version__)}


def _first_line(problem: BaseException) -> str:
    lines = [line for line in str(problem).splitlines() if line.strip()]
    shown = lines[-1].strip() if lines else type(problem).__name__
    return shown.rstrip(".")[:200]
