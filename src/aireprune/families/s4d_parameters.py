"""The parameters of S4D: what a layer is made of, and how stored numbers become poles and steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SILENT_POLE = 0.5  # -Re of the continuous pole that padding modes get
FILLER = {"C": 0.0, "log_A_real": float(np.log(SILENT_POLE)), "A_imag": 0.0}  # such a mode, in the standalone layout
RELU_FLOOR = 1e-4  # the S4 repository's relu transform is relu(x) + 1e-4


@dataclass(frozen=True, kw_only=True)
class S4DOptions:
    """Sizes of a layer, and what the S4 repository's tensors do not say, under its names."""

    storage: str  # standalone (s4d.py) or repository (the S4 repository)
    channels: int  # H
    copies: int  # S sets of poles; channel h uses copy h mod S
    modes: int  # N stored modes per channel
    directions: int = 1
    granularity: str = "mode"
    disc: str = "zoh"
    untied: bool = False  # steps of every mode
    dt_transform: str = "exp"
    real_transform: str = "exp"
    imag_transform: str = "none"
    dt_fast: bool = False
    bandlimit: float | None = None


Transform = Callable[[np.ndarray], np.ndarray]
TRANSFORMS: dict[str, tuple[Transform, Transform]] = {  # stored -> positive number, and back
    "none": (lambda x: x, lambda p: p),
    "exp": (np.exp, lambda p: np.log(np.maximum(p, 1e-30))),
    "relu": (lambda x: np.maximum(x, 0) + RELU_FLOOR, lambda p: p - RELU_FLOOR),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda p: np.log(p) - np.log1p(-p)),
    "softplus": (lambda x: np.logaddexp(0, x), lambda p: p + np.log(-np.expm1(-np.maximum(p, 1e-30)))),
}


def continuous_poles(real: np.ndarray, imag: np.ndarray | None, options: S4DOptions) -> np.ndarray:
    """A = -f(A_real) - i g(A_imag), the S4 repository's parameters."""
    pole = -TRANSFORMS[options.real_transform][0](real) + 0j
    return pole if imag is None else pole - 1j * TRANSFORMS[options.imag_transform][0](imag)


def steps(inv_dt: np.ndarray, options: S4DOptions) -> np.ndarray:
    """Step sizes from the S4 repository's inv_dt."""
    return TRANSFORMS[options.dt_transform][0](np.sinh(inv_dt) if options.dt_fast else inv_dt)


def as_complex(parts: np.ndarray) -> np.ndarray:
    return parts[..., 0] + 1j * parts[..., 1]
