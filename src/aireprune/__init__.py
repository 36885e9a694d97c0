"""AIRE-Prune: find the states a trained state space model does not need, take them out, prove what that changed.

import aireprune
plan = aireprune.plan("checkpoint.msgpack", method="aire", ratio=0.6)
small = aireprune.prune("checkpoint.msgpack", plan=plan)
aireprune.save(small, "pruned")
"""

from aireprune.api import accelerate, calibrate, load, methods, plan, prune, prune_file, save
from aireprune.audit import certify_model as certify
from aireprune.errors import AireError
from aireprune.planning import Plan

__version__ = "0.1.0"
__all__ = [
    "AireError",
    "Plan",
    "accelerate",
    "calibrate",
    "certify",
    "load",
    "methods",
    "plan",
    "prune",
    "prune_file",
    "save",
]
