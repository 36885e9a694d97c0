"""How sure a measured difference is: intervals of a mean, and paired comparisons on the same examples."""

from __future__ import annotations

import math

import numpy as np

Z = 1.959963984540054  # two-sided 95 %
T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)  # the same of Student, 1 to 9 degrees


def interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean: Wilson's for zeros and ones, the normal one for other values."""
    n, mean = len(values), float(np.mean(values))
    if np.isin(values, (0.0, 1.0)).all():
        centre, spread = (mean + Z**2 / (2 * n)) / (1 + Z**2 / n), Z / (1 + Z**2 / n)
        half = spread * math.sqrt(mean * (1 - mean) / n + Z**2 / (4 * n**2))
        return centre - half, centre + half
    return normal_interval(values)


def normal_interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean by its standard error; infinite for a single value."""
    n, mean = len(values), float(np.mean(values))
    half = Z * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return mean - half, mean + half


def student_interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean of a few values, by Student's t; infinite for a single one."""
    degrees, mean = len(values) - 1, float(np.mean(values))
    if degrees < 1:
        return -math.inf, math.inf
    quantile = T[degrees - 1] if degrees <= len(T) else Z
    half = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean - half, mean + half


def paired_interval(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean of a - b on the same examples.

    Zeros and ones: Agresti and Min (2005), who add half an example to each of the four cells. Other values: normal.
    """
    difference = np.asarray(a, float) - np.asarray(b, float)
    if not np.isin(np.concatenate([a, b]), (0.0, 1.0)).all():
        return normal_interval(difference)
    n = len(difference) + 2
    mean = float(difference.sum()) / n
    changed = float(np.abs(difference).sum()) + 1
    half = Z * math.sqrt(changed / n - mean**2) / math.sqrt(n)
    return max(mean - half, -1.0), min(mean + half, 1.0)


def paired_p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided p value of no difference on the same examples.

    Zeros and ones: McNemar's exact test, on the examples where exactly one of the two is right. Other values: the
    normal approximation of the paired t test.
    """
    difference = np.asarray(a, float) - np.asarray(b, float)
    if np.isin(difference, (-1.0, 0.0, 1.0)).all():
        wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
        return min(1.0, 2 * _binomial_tail(wins + losses, min(wins, losses)))
    if len(difference) < 2 or not difference.any():
        return 1.0
    error = float(np.std(difference, ddof=1)) / math.sqrt(len(difference))
    return math.erfc(abs(float(difference.mean())) / error / math.sqrt(2)) if error else 0.0


def _binomial_tail(n: int, k: int) -> float:
    """P(X <= k) for n fair coins."""
    return sum(math.comb(n, i) for i in range(k + 1)) / 2**n  # whole numbers: exact for any n
