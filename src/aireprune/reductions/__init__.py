"""Ways to make a layer smaller: truncate (the paper), refit, balanced (METHOD.md section 5)."""

from aireprune.reductions.balanced import balanced
from aireprune.reductions.balancing import hankel_scores, hankel_values
from aireprune.reductions.base import Reduction
from aireprune.reductions.poles import ContinuousModes, to_continuous
from aireprune.reductions.refit import refit
from aireprune.reductions.truncate import truncate

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
