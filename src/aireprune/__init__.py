"""AIRE-Prune: find the states a trained state space model does not need, take them out, prove what that changed.

import aireprune
plan = aireprune.plan("checkpoint.msgpack", ratio=0.6)
small = aireprune.prune("checkpoint.msgpack", plan=plan)
aireprune.save(small, "pruned")
"""

from typing import TYPE_CHECKING, Any

from aireprune.version import VERSION

if TYPE_CHECKING:
    from aireprune.api import (
        accelerate,
        calibrate,
        evaluate,
        explore,
        export,
        generate,
        inspect,
        load,
        methods,
        plan,
        prune,
        prune_file,
        report,
        save,
        score,
        sweep,
    )
    from aireprune.certificates.audit import certify_model as certify
    from aireprune.errors import AireError, Notice
    from aireprune.pruning.plan import Plan

__version__ = VERSION
__all__ = [
    "AireError",
    "Notice",
    "Plan",
    "accelerate",
    "calibrate",
    "certify",
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
_ELSEWHERE = {
    "AireError": ("errors", "AireError"),
    "Notice": ("errors", "Notice"),
    "Plan": ("pruning.plan", "Plan"),
    "certify": ("certificates.audit", "certify_model"),
}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used: `aire --help` needs none of them, and NumPy takes its time."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, there = _ELSEWHERE.get(name, ("api", name))
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), there)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
