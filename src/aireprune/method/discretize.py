"""Continuous poles to discrete ones, without losing 1 - |lam| on the way (docs/method.md section 1).

Both maps return log|lam|, arg(lam) and the factor that turns a continuous B row into its discrete one.
"""

from __future__ import annotations

import numpy as np


def zoh(pole: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """lam = exp(pole step), factor (lam - 1)/pole, which tends to step as the pole tends to 0."""
    z = pole * step
    tiny = np.abs(z) < 1e-3
    safe = np.where(tiny, 1.0, z)
    series = 1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5)))
    return z.real, z.imag, step * np.where(tiny, series, np.expm1(safe) / safe)


def bilinear(pole: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """lam = (1 + a)/(1 - a) with a = pole step/2, factor step/(1 - a). |lam|^2 = 1 + 4 Re(a)/|1 - a|^2."""
    a = pole * step / 2
    with np.errstate(divide="ignore"):  # a = -1 is lam = 0
        log_radius = np.log1p(4 * a.real / np.abs(1 - a) ** 2) / 2
    return log_radius, np.angle((1 + a) / (1 - a)), step / (1 - a)


DISCRETIZE = {"zoh": zoh, "bilinear": bilinear}
