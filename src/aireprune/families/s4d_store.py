"""New systems and readouts in the arrays of an S4D layer.

B becomes 1 and C takes it up; every channel keeps its step. Poles are stored as -f(A_real) - i g(A_imag) (the S4
repository) or -exp(log_A_real) + i A_imag (standalone). Silent modes of the standalone layout become fillers.
"""

from __future__ import annotations

import numpy as np

from aireprune.arrays import NamedArrays
from aireprune.errors import AireError
from aireprune.families.base import Layer
from aireprune.families.s4d_parameters import SILENT_POLE, TRANSFORMS, S4DOptions, continuous_poles, steps
from aireprune.families.storing import packed, rounded, with_signs
from aireprune.method.discretize import DISCRETIZE
from aireprune.method.reductions.poles import to_continuous
from aireprune.method.system import ModalSystem


def new_readout(
    layer: Layer[S4DOptions], arrays: NamedArrays, log_lam: np.ndarray, c: np.ndarray
) -> dict[str, np.ndarray]:
    """C for a readout c (d, o, H, n) of modes whose poles are exp(log_lam) (H, n)."""
    name = layer.arrays["C"]
    old = np.asarray(arrays[name])
    if "l_kernel" in layer.arrays and (length := float(layer.read(arrays, "l_kernel"))) > 0:
        c = c * -np.expm1(log_lam * length)  # C is stored tuned to kernels of this length
    if layer.options.storage == "standalone":
        return {name: packed(c[0, 0], old)}
    c = c.reshape(-1, *c.shape[2:])
    return {name: packed(c, old) if "A_imag" in layer.arrays else c.real.astype(old.dtype)}


def new_system(layer: Layer[S4DOptions], arrays: NamedArrays, system: ModalSystem) -> dict[str, np.ndarray]:
    """Every array of the layer that has modes; rows are as long as the system's, and every channel has poles of its own."""
    options, names = layer.options, layer.arrays
    if "A_imag" not in names:
        raise AireError(f"Layer {layer.name} has real poles only, and balanced truncation makes complex ones.")
    old = {role: np.asarray(arrays[name]) for role, name in names.items()}
    standalone = options.storage == "standalone"
    system = with_signs(system, np.full(system.log_radius.shape, 1.0 if standalone else -1.0))
    if standalone:
        step = np.exp(layer.read(arrays, "log_dt"))[:, None]
    else:  # untied steps: their geometric mean
        step = np.exp(np.log(steps(layer.read(arrays, "inv_dt"), options)).mean(1, keepdims=True))
    pole = to_continuous(system.log_radius, system.angle, step, options.disc).pole
    silent = ~system.c.any(axis=(1, 2))  # (H, n)
    if standalone:
        new, pole, step = _standalone(np.where(silent, -SILENT_POLE, pole), old, step)
    else:
        new, pole, step = _repository(pole, old, layer, step)
    log_radius, angle, factor = DISCRETIZE[options.disc](pole, step)
    c = np.moveaxis(system.c * (system.b[..., 0] / factor)[:, None, None, :], 0, 2)
    c[..., silent] = 0  # without the sign that a product of zeros may have
    return {names[role]: values for role, values in new.items()} | new_readout(
        layer, arrays, log_radius + 1j * angle, c
    )


def _standalone(
    pole: np.ndarray, old: dict[str, np.ndarray], step: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """New arrays by role, and the poles and steps that they hold after rounding."""
    log_real, exact_log_real = rounded(np.log(-pole.real), old["log_A_real"])
    imag, exact_imag = rounded(pole.imag, old["A_imag"])
    return {"log_A_real": log_real, "A_imag": imag}, -np.exp(exact_log_real) + 1j * exact_imag, step


def _repository(
    pole: np.ndarray, old: dict[str, np.ndarray], layer: Layer[S4DOptions], step: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    options = layer.options
    with np.errstate(all="ignore"):  # what a transform cannot hold shows when the result is compared
        real, exact_real = rounded(TRANSFORMS[options.real_transform][1](-pole.real), old["A_real"])
        imag, exact_imag = rounded(TRANSFORMS[options.imag_transform][1](-pole.imag), old["A_imag"])
    b = np.zeros((1, *pole.shape, 2), old["B"].dtype)
    b[..., 0] = 1
    new = {"A_real": real, "A_imag": imag, "B": b}
    if "P" in old:
        new["P"] = np.zeros((len(old["P"]), *pole.shape, 2), old["P"].dtype)
    if options.untied:
        inverse = TRANSFORMS[options.dt_transform][1](step)
        inverse = np.arcsinh(inverse) if options.dt_fast else inverse
        new["inv_dt"], exact = rounded(np.broadcast_to(inverse, pole.shape).copy(), old["inv_dt"])
        step = steps(exact, options)
    return new, continuous_poles(exact_real, exact_imag, options), step
