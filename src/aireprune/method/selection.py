"""From scores to kept states: normalisation, scope, budget (docs/method.md section 3). Pure functions over arrays."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from aireprune.errors import AireError


@dataclass(frozen=True)
class Budget:
    """How much to keep: a share `ratio` of all states goes, or everything that scores below `threshold` does."""

    ratio: float | None = None
    threshold: float | None = None
    min_states: int = 1

    def __post_init__(self) -> None:
        if (self.ratio is None) == (self.threshold is None):
            if self.ratio is not None:
                raise AireError("Give ratio= or threshold=, not both.")
            raise AireError("Say how much is to go: give ratio=, threshold= or plan=.")
        numbers = (self.ratio, self.threshold, self.min_states)
        if (
            any(not isinstance(value, int | float | None) for value in numbers)
            or int(self.min_states) != self.min_states
        ):
            raise AireError(f"ratio and threshold are numbers and min_states is a whole one; got {numbers}.")
        if self.ratio is not None and not 0 <= self.ratio <= 1:
            raise AireError(f"The ratio is the share of states to remove, from 0 to 1; got {self.ratio}.")
        if self.threshold is not None and not self.threshold >= 0:
            raise AireError(f"The threshold is a score, 0 or more; got {self.threshold}.")
        if self.min_states < 0:
            raise AireError(f"min_states is a number of states, 0 or more; got {self.min_states}.")

    @property
    def share(self) -> Fraction:
        """1 - ratio, exactly: of 10 states at ratio 0.9 one stays, whatever binary fractions make of 1 - 0.9."""
        return 1 - Fraction(repr(float(self.ratio or 0)))

    def keep_of(self, states: int) -> int:
        return int(self.share * states)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How scores become counts per layer.

    prefix: scores are prefix-normalised in each layer, with `epsilon` added to the sums. scope: 'global', one ranking
    over all layers, or 'uniform', the same share of every layer. round_to: counts are rounded up to a multiple.
    sizes: counts are then rounded up to one of these, ascending, or a layer stays whole if none is large enough.
    same_size: all layers keep equally many. These three come after the budget. counts: what every layer keeps, decided
    by somebody else; only the best ones of each layer are chosen then.
    """

    prefix: bool = True
    scope: str = "global"
    epsilon: float = 0.0
    round_to: int = 1
    sizes: tuple[int, ...] = ()
    same_size: bool = False
    counts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < float("inf"):
            raise AireError(f"epsilon is added to a sum of energies, so it is a number, 0 or more; got {self.epsilon}.")
        if self.epsilon and not self.prefix:
            raise AireError("epsilon belongs to prefix normalisation, which this method does not use.")
        if self.round_to < 1:
            raise AireError(f"Counts are rounded up to a multiple of 1 or more; got {self.round_to}.")

    def rounded(self, count: int, states: int) -> int:
        """The count that a layer of so many states keeps instead."""
        count = -(-count // self.round_to) * self.round_to
        if self.sizes:
            count = next((size for size in self.sizes if size >= count), states)
        return min(count, states)


@dataclass(frozen=True)
class Selection:
    kept: list[np.ndarray]  # ascending indices per layer
    scores: list[np.ndarray]  # what was compared: normalised where the method says so
    threshold: float  # the lowest score that was kept on its merit; inf if none was


def prefix_normalize(scores: np.ndarray, epsilon: float = 0.0) -> np.ndarray:
    """s_(i) / (sum_{j<=i} s_(j) + epsilon) over the descending order, returned in the original order.

    Non-increasing along the order. Where the sum is 0 every score so far is 0, and so is the quotient.
    """
    order = np.argsort(-scores, kind="stable")
    descending = scores[order]
    total = np.cumsum(descending) + epsilon
    normalized = np.empty_like(descending)
    normalized[order] = np.divide(descending, total, out=np.zeros_like(descending), where=total > 0)
    return normalized


@dataclass(frozen=True, kw_only=True)
class Pool:
    """What is chosen from, per layer.

    scores: (n,). always: marks states that stay whatever they score (unstable ones under the policy 'keep'); they count
    towards the budget but not in the normalisation, and their score is reported as infinite. counted: how many states
    a ratio is a share of; all of them, unless some are silent.
    """

    scores: list[np.ndarray]
    always: list[np.ndarray]
    counted: list[int]

    @classmethod
    def of(cls, scores: list[np.ndarray]) -> Pool:
        """All states count, and none must stay."""
        return cls(scores=scores, always=[np.zeros(len(s), bool) for s in scores], counted=[len(s) for s in scores])


def select(pool: Pool, budget: Budget, rule: Rule | None = None) -> Selection:
    """Choose the states to keep. Ties go to the lower (layer, index), so that a budget is met exactly."""
    rule = rule or Rule()
    ranked = []
    for layer, must in zip(pool.scores, pool.always, strict=True):
        values = np.full(len(layer), np.inf)
        values[~must] = prefix_normalize(layer[~must], rule.epsilon) if rule.prefix else layer[~must]
        ranked.append(values)
    wanted = rule.counts or _counts(ranked, pool.counted, budget, "same" if rule.same_size else rule.scope)
    wanted = [rule.rounded(k, len(v)) for k, v in zip(wanted, ranked, strict=True)]
    kept = [np.sort(_order(v)[: max(k, m.sum())]) for v, k, m in zip(ranked, wanted, pool.always, strict=True)]
    if budget.threshold is not None:
        return Selection(kept, ranked, budget.threshold)
    return Selection(kept, ranked, _lowest_kept(ranked, kept, budget, pool.always))


def _counts(ranked: list[np.ndarray], counted: list[int], budget: Budget, scope: str) -> list[int]:
    """How many states each layer keeps."""
    if scope == "uniform" and budget.threshold is not None:
        raise AireError("A uniform method keeps the same share of every layer, so it takes a ratio, not a threshold.")
    if scope == "same":
        return _same_counts(ranked, counted, budget)
    if budget.threshold is not None:
        return [_at_least(values, budget) for values in ranked]
    must = [int(np.isinf(v).sum()) for v in ranked]  # states that stay whatever they score
    floors = [max(min(budget.min_states, len(v)), m) for v, m in zip(ranked, must, strict=True)]
    if scope == "uniform":
        return _uniform_counts(counted, budget, floors)
    return _global_counts(ranked, budget.keep_of(sum(counted)), floors)


def _same_counts(ranked: list[np.ndarray], counted: list[int], budget: Budget) -> list[int]:
    """One size for all layers: by ratio the floor of the share, by threshold what the neediest layer asks for."""
    sizes = {len(v) for v in ranked}
    if len(sizes) > 1:
        raise AireError(f"Layers of {', '.join(map(str, sorted(sizes)))} states cannot all get one size by a ratio.")
    (size,) = sizes
    if budget.threshold is not None:
        count = max(_at_least(values, budget) for values in ranked)
    else:
        count = max(budget.keep_of(max(counted)), min(budget.min_states, size))
    return [count] * len(ranked)


def _order(values: np.ndarray) -> np.ndarray:
    """Indices by descending score, ties by index."""
    return np.argsort(-values, kind="stable")


def _at_least(values: np.ndarray, budget: Budget) -> int:
    return max(int((values >= budget.threshold).sum()), min(budget.min_states, len(values)))


def _uniform_counts(sizes: list[int], budget: Budget, floors: list[int]) -> list[int]:
    """The same share of every layer, at least the floor; what rounding leaves over goes to the largest remainders."""
    total = max(budget.keep_of(sum(sizes)), sum(floors))
    share = budget.share
    counts = [max(int(share * n), floor) for n, floor in zip(sizes, floors, strict=True)]
    while sum(counts) != total:  # floors that bind take from the layers that are furthest above their share
        excess = {i: counts[i] - share * n for i, n in enumerate(sizes)}
        if sum(counts) > total:
            counts[max((i for i in excess if counts[i] > floors[i]), key=lambda i: (excess[i], i))] -= 1
        else:
            counts[min((i for i in excess if counts[i] < sizes[i]), key=lambda i: (excess[i], i))] += 1
    return counts


def _global_counts(ranked: list[np.ndarray], keep: int, floors: list[int]) -> list[int]:
    """One ranking over all layers, after every layer's best ones up to its floor have been set aside."""
    spare = keep - sum(floors)
    counts = list(floors)
    if spare <= 0:
        return counts
    layer = np.concatenate([np.full(len(v) - f, i) for i, (v, f) in enumerate(zip(ranked, floors, strict=True))])
    score = np.concatenate([v[_order(v)][f:] for v, f in zip(ranked, floors, strict=True)])
    best = np.argsort(-score, kind="stable")[:spare]  # stable: ties by layer, then by rank within it
    for chosen, extra in zip(*np.unique(layer[best], return_counts=True), strict=True):
        counts[int(chosen)] += int(extra)
    return counts


def _lowest_kept(ranked: list[np.ndarray], kept: list[np.ndarray], budget: Budget, always: list[np.ndarray]) -> float:
    """The lowest kept score, of layers that keep more than their floor."""
    lows = [
        float(v[k][~m[k]].min())
        for v, k, m in zip(ranked, kept, always, strict=True)
        if len(k) > min(budget.min_states, len(v)) and (~m[k]).any()
    ]
    return min(lows, default=float("inf"))
