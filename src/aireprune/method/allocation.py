"""How many states each layer keeps, from what fewer states cost: a separable problem on measured curves.

A curve says, for some numbers of kept states of a layer, how far the model's answers then are from the full model's. The
sum over all layers is to be least for a given total. On the lower convex hull of every curve that is solved exactly by
giving states, one segment after another, to the layer whose harm falls fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

Curve = Mapping[int, float]  # states kept -> harm


def allocate(curves: Sequence[Curve], total: int) -> list[int]:
    """States of every layer, `total` together, as far as the curves go; every layer keeps at least its curve's fewest."""
    counts = [min(curve) for curve in curves]
    segments = [
        (slope, layer, length) for layer, curve in enumerate(curves) for slope, length in _segments(curve)
    ]  # steepest first, and the segments of a layer are in this order by themselves
    left = total - sum(counts)
    for _, layer, length in sorted(segments):
        given = max(0, min(length, left))
        counts[layer] += given
        left -= given
    return counts


def _segments(curve: Curve) -> list[tuple[float, int]]:
    """Slope (falling harm is negative) and length of the pieces of the lower convex hull, from the fewest states on."""
    hull: list[tuple[int, float]] = []
    for point in sorted(curve.items()):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    return [(_slope(a, b), b[0] - a[0]) for a, b in pairwise(hull)]


def _slope(a: tuple[int, float], b: tuple[int, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])
