"""Ways to make a layer smaller: truncate (the paper), refit, balanced (docs/method.md section 5)."""

from aireprune.method.reductions.balanced import balanced
from aireprune.method.reductions.balancing import hankel_scores, hankel_values
from aireprune.method.reductions.base import Reduction
from aireprune.method.reductions.poles import ContinuousModes, to_continuous
from aireprune.method.reductions.refit import refit
from aireprune.method.reductions.truncate import truncate

__all__ = [
    "ContinuousModes",
    "Reduction",
    "balanced",
    "hankel_scores",
    "hankel_values",
    "refit",
    "to_continuous",
    "truncate",
]
