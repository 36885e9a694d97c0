"""Times of models that take turns, so that a busy machine is busy for all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np


def take_turns(runs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, np.ndarray]:
    """Seconds of every run in every round, (repeats,), after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - began)
    return {name: np.array(values) for name, values in times.items()}


def speedup(slow: np.ndarray, fast: np.ndarray) -> tuple[float, float, float]:
    """How many times faster: the median over the rounds, and the quartiles."""
    low, middle, high = np.percentile(slow / fast, [25, 50, 75])
    return float(middle), float(low), float(high)


def medians(times: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {name: float(np.median(values)) for name, values in times.items()}
