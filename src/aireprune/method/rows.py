"""Which modes stay where rows are stored as long as the longest of them (S4D files in a stock layout).

One channel that keeps 20 modes among channels that keep 3 makes every row 20 long. A layer still keeps as many modes as
was decided, but its longest rows give up their weakest modes for the next best ones of other rows, as far as the scores
of all that is removed grow by no more than `ROW_COST`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aireprune.method.decision import Decision

ROW_COST = 0.05


def shorten_rows(decision: Decision, scores: Sequence[np.ndarray], rows: Sequence[int]) -> Decision:
    """The decision with shorter rows. scores: raw, (n,) per layer; rows: into how many each layer's states divide."""
    kept = [
        shortest_rows(values.reshape(count, -1), len(mine), ROW_COST) if count > 1 else mine
        for mine, values, count in zip(decision.kept, scores, rows, strict=True)
    ]
    return replace(decision, kept=kept)


def shortest_rows(scores: np.ndarray, keep: int, cost: float) -> np.ndarray:
    """Which `keep` states stay, ascending, so that rows are short and the removed scores at most 1 + cost of the least.

    scores: (rows, n), 0 or more, NaN for states that always stay. The best choice of at most w states per row is the
    best of every row's w best ones; the smallest w that is good enough is taken. Ties go to the lower index.
    """
    ranked = np.where(np.isnan(scores), np.inf, scores)
    best = np.argsort(-ranked.ravel(), kind="stable")
    place = np.argsort(np.argsort(-ranked, axis=1, kind="stable"), axis=1).ravel()  # of a state in its row
    worth = np.nan_to_num(scores).ravel()

    def within(width: int) -> np.ndarray:
        return best[place[best] < width][:keep]

    def removed(width: int) -> float:
        return float(np.delete(worth, within(width)).sum())

    allowed = (1 + cost) * removed(scores.shape[1])
    width = max(-(-keep // len(scores)), int(np.isnan(scores).sum(axis=1).max(initial=0)))
    while removed(width) > allowed:
        width += 1
    return np.sort(within(width))
