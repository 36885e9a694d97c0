"""Times and ratios as cells of a table."""

from __future__ import annotations

from typing import Any

Spread = tuple[float, float, float]  # median, lower and upper quartile


def spread(found: Spread | None) -> str:
    """A ratio and its quartiles; empty where it was not measured."""
    return "" if found is None else f"{found[0]:.2f} ({found[1]:.2f}-{found[2]:.2f})"


def milliseconds(seconds: float, digits: int = 2) -> str:
    return f"{1e3 * seconds:.{digits}f} ms"


def faster(found: dict[str, Any], slow: str, fast: str, ratio: str = "") -> tuple[str, str, str, str]:
    """Two of the measured times, and how many times faster the second is, with quartiles.

    ratio: what that is called in the measurements; by default SLOW to FAST.
    """
    seconds, (middle, low, high) = found["seconds"], found[ratio or f"{slow} to {fast}"]
    return milliseconds(seconds[slow]), milliseconds(seconds[fast]), f"{middle:.2f}x", f"{low:.2f} to {high:.2f}"
