"""Figures of the AIRE-Prune paper (ICLR 2026), as printed: long sequences, large models, an H100. Not our scale."""

from __future__ import annotations

TASKS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx", "speech")

# Table 1: S5. method -> task -> (states removed in %, accuracy in %)
TABLE1: dict[str, dict[str, tuple[float, float]]] = {
    method: dict(zip(TASKS, cells, strict=True))
    for method, cells in {
        "full": [(0, 61.48), (0, 88.88), (0, 91.20), (0, 87.30), (0, 95.15), (0, 98.41), (0, 96.43)],
        "uniform-hinf": [(0, 61.48), (60, 82.49), (50, 90.29), (30, 86.45), (30, 71.38), (30, 90.90), (20, 96.20)],
        "global-hinf": [(0, 61.48), (60, 88.56), (50, 90.93), (30, 87.04), (30, 57.20), (30, 69.21), (20, 96.21)],
        "last": [(0, 61.48), (60, 88.52), (50, 90.42), (30, 86.34), (30, 94.45), (30, 97.95), (20, 96.31)],
        "aire": [(20, 61.48), (80, 88.24), (50, 90.11), (65, 87.30), (80, 95.15), (70, 98.41), (45, 96.40)],
    }.items()
}

# Table 2: S4D and Mamba; what the paper leaves out is left out here.
TABLE2: dict[str, dict[str, dict[str, tuple[float, float]]]] = {
    "s4d": {
        "full": {"listops": (0, 56.42), "text": (0, 86.40), "retrieval": (0, 90.46), "image": (0, 77.02)},
        "uniform-hinf": {"listops": (10, 55.82), "text": (80, 86.02), "retrieval": (60, 89.87), "image": (0, 77.02)},
        "global-hinf": {"listops": (10, 49.95), "text": (80, 86.20), "retrieval": (60, 89.84), "image": (0, 77.02)},
        "last": {"listops": (10, 56.27), "text": (80, 85.95), "retrieval": (60, 89.46), "image": (0, 77.02)},
        "aire": {"listops": (35, 56.07), "text": (90, 85.83), "image": (40, 76.32)},
    },
    "mamba": {
        "full": {"listops": (0, 38.02), "text": (0, 82.98), "retrieval": (0, 72.14), "image": (0, 69.82)},
        "last": {"text": (20, 81.32), "retrieval": (45, 71.37), "image": (45, 69.13)},
        "aire": {"text": (45, 81.19), "retrieval": (60, 71.45), "image": (80, 68.97)},
    },
}

# Tables 3 and 5: task -> (states removed in %, inference speedup, parameters saved in %)
TABLE3: dict[str, tuple[float, float, float]] = {
    "listops": (20, 1.23, 19.3),
    "text": (80, 2.49, 58.7),
    "retrieval": (50, 1.82, 38.3),
    "image": (65, 1.93, 45.3),
    "pathfinder": (80, 2.82, 64.7),
    "pathx": (70, 2.86, 64.2),
}
TABLE5: dict[str, tuple[float, float, float]] = {
    "text": (45, 1.61, 19.1),
    "retrieval": (60, 1.57, 8.1),
    "image": (80, 2.03, 12.1),
}


def reported(family: str, method: str, task: str) -> tuple[float, float] | None:
    """(states removed in %, accuracy in %) of Table 1 or 2, where the paper has it."""
    table = TABLE1 if family == "s5" else TABLE2.get(family, {})
    return table.get(method, {}).get(task)


def safe_in_paper(family: str, task: str) -> tuple[float, float] | None:
    """The ratio that method aire is safe at, in per cent, and what it costs there, in points, where the paper has it."""
    full, safe = reported(family, "full", task), reported(family, "aire", task)
    return None if full is None or safe is None else (safe[0], full[1] - safe[1])
