"""The public functions. Each takes a model in memory or a path to a checkpoint."""

from aireprune.api.models import accelerate, calibrate, export, generate, load, methods, plan, prune, prune_file, save
from aireprune.api.studies import evaluate, explore, inspect, report, score, sweep

__all__ = [
    "accelerate",
    "calibrate",
    "evaluate",
    "explore",
    "export",
    "generate",
    "inspect",
    "load",
    "methods",
    "plan",
    "prune",
    "prune_file",
    "report",
    "save",
    "score",
    "sweep",
]
