"""Numbers that several kernels use."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

LOG2E = math.log2(math.e)
CACHE_LINE = 64  # bytes
GELU_SLOPE, GELU_CUBE = math.sqrt(8 / math.pi), 0.044715  # gelu(x) = x sigmoid(slope (x + cube x^3)), the tanh form


def interpolation(function: Callable[[np.ndarray], np.ndarray], degree: int, low: float, high: float) -> list[float]:
    """Coefficients, ascending, of the polynomial that equals the function at the Chebyshev nodes of [low, high]."""
    series = np.polynomial.Chebyshev.interpolate(function, degree, [low, high])
    return [float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef]
