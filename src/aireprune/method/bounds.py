"""Certificates: how far a reduced layer can be from the full one, at worst and on average (docs/method.md section 4).

All bounds are for the true operator of the layer, y = sum over directions of s Re(c x), s = 2 for conjugate halves
and 1 for a full spectrum. With alpha_i^d = |C_i^d| |B_i| and E_i = mean_d (alpha_i^d)^2 / (1 - r_i^2) of the stored
modes of the *error* system (for plain pruning: of the pruned modes T), D directions, rho = max r_i, kappa = sqrt((1 +
rho)/(1 - rho)):

    one mode     (s/2) |c b/(1 - lam z) + conj(c b)/(1 - conj(lam) z)| <= s alpha_i / (1 - r_i)   on |z| = 1
    [LAST]       |E|_inf <= s sum_i sum_d alpha_i^d / (1 - r_i)
    [AIRE]       |E|_inf <= s D kappa min{ sum sqrt(E_i), sqrt|T| sqrt(sum E_i) }
    [balanced]   |E|_inf <= f 2 sum of the truncated Hankel singular values, f = 1 for one direction

[AIRE] follows from [LAST] by sum_d alpha^d <= D sqrt(mean_d (alpha^d)^2) and 1/(1 - r) <= kappa / sqrt(1 - r^2).

Two directions: balancing stacks E1 and E2 as outputs, |[E1; E2]|_inf <= beta, while the layer adds E1(e^{iw}) +
E2(e^{-iw}). With one input |E1|^2 + |E2|^2 <= beta^2 at each w, hence f = sqrt(2). With several inputs E1 may be
largest for v and E2(e^{-iw}) for the same v although E2(e^{iw}) is for conj(v): only f = 2 is safe.

A batch of systems (S4D channels) is block-diagonal: its norm and bounds are the largest ones, its energies add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aireprune.method.gramians import state_energies
from aireprune.method.hinf import hinf_norm
from aireprune.method.lowpass import slow_error
from aireprune.method.reductions.base import Reduction
from aireprune.method.system import ModalSystem


@dataclass(frozen=True)
class LayerCertificate:
    """What is proved about one reduced layer. Norms are gains from input to output energy (its square root)."""

    name: str
    reduction: str
    modes: int  # stored modes of the full layer
    kept: int
    aire_bound: float
    last_bound: float
    balanced_bound: float | None  # where balancing promises one
    hinf: float | None  # the true norm of the error system; None if it was not searched for
    hinf_frequency: float | None  # radians per step
    layer_energy: float  # exact, tr(C P C*)
    error_energy: float  # exact squared H2 error
    pruned_energies: float  # sum of E_i over the error system's modes, as the paper adds them up
    relative_h2: float  # sqrt(error_energy / layer_energy)
    slow_error: float | None = None  # under inputs that vary slowly: `aireprune.method.lowpass`
    notes: tuple[str, ...] = ()

    @property
    def bound(self) -> float:
        """The best of the bounds."""
        return min(self.aire_bound, self.last_bound, math.inf if self.balanced_bound is None else self.balanced_bound)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: infinite bounds (nothing is promised) become null."""
        values = {**asdict(self), "bound": self.bound, "notes": list(self.notes)}
        return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in values.items()}


def certify(name: str, reduction: Reduction, hinf: bool = True, horizon: int | None = None) -> LayerCertificate:
    """The certificate of a reduced layer. The search for the true norm is the only part that takes time.

    horizon: steps of the inputs, where they are known; they count in the error that is expected, not in what is proved.
    """
    error = audible(reduction.error)
    norm, frequency = hinf_norm(error) if hinf and error.stable else (None, None)
    promised = None if reduction.tail is None else balanced_bound(error, float(reduction.tail.max(initial=0.0)))
    notes = reduction.notes
    if promised is not None and norm is not None and norm > promised * (1 + 1e-9):
        notes += (f"the balanced bound {promised:.3g} is below the norm {norm:.3g} and was withdrawn: rounding errors",)
        promised = None
    return LayerCertificate(
        name=name,
        reduction=reduction.method,
        modes=int(np.prod(reduction.error.batch)) * _full_modes(reduction),
        kept=int(reduction.order.sum()),
        aire_bound=aire_bound(error),
        last_bound=last_bound(error),
        balanced_bound=promised,
        hinf=norm,
        hinf_frequency=frequency,
        layer_energy=float(reduction.energy.sum()),
        error_energy=float(reduction.error_energy.sum()),
        pruned_energies=float(state_energies(error).sum()) if error.stable else math.inf,
        relative_h2=reduction.relative_error,
        slow_error=slow_error(reduction, horizon) if error.stable else None,
        notes=notes,
    )


def last_bound(error: ModalSystem) -> float:
    """[LAST] s sum_i sum_d alpha_i^d / (1 - r_i)."""
    if not audible(error).stable:
        return math.inf
    alpha, decay = _alphas(error).sum(-2), -np.expm1(error.log_radius)
    return error.share * _largest(np.where(alpha > 0, alpha / decay, 0.0).sum(-1))


def aire_bound(error: ModalSystem) -> float:
    """[AIRE] s D kappa(rho) min{ sum sqrt(E_i), sqrt|T| sqrt(sum E_i) }."""
    if not audible(error).stable:
        return math.inf
    there = error.audible()
    energies = np.where(there, state_energies(error), 0.0)
    slowest = np.where(there, error.log_radius, -np.inf).max(-1, initial=-np.inf)
    kappa = np.sqrt((1 + np.exp(slowest)) / -np.expm1(slowest))
    total = np.minimum(np.sqrt(energies).sum(-1), np.sqrt(there.sum(-1) * energies.sum(-1)))
    return error.share * error.directions * _largest(kappa * total)


def balanced_bound(error: ModalSystem, tail: float) -> float:
    """[balanced] f times 2 sum of the truncated Hankel singular values (`tail`)."""
    if error.directions == 1:
        return tail
    return tail * (math.sqrt(2) if error.inputs == 1 else 2.0)


@dataclass(frozen=True, kw_only=True)
class StackLayer:
    """What the end-to-end bound knows of one layer of a residual stack z' = behind(z + phi(G nu(z))).

    error: |G - G~|_inf. gain: |G~|_inf of the reduced layer, its D u path included. input_norm: |nu(z)|_2 of the full
    model, measured or bounded. outer: L_phi of activation, gate and mixing. inner: L_nu of the norm before the layer.
    behind: the constant of what stands behind the residual connection, such as a post-norm. Batch norm in eval mode is
    affine, so its constant is its largest scale; layer norm is Lipschitz only down to its epsilon, scale/sqrt(epsilon);
    a gate y sigmoid(Wy) is so only on a bounded set. The constants are the caller's: the bound is as good as they are.
    """

    error: float
    gain: float
    input_norm: float
    outer: float = 1.0
    inner: float = 1.0
    behind: float = 1.0


def residual_stack_bound(layers: Sequence[StackLayer], initial: float = 0.0) -> list[float]:
    """l2 bounds on the error before each layer, and after the last one; `initial` is the one before the first.

    e' <= L_behind ((1 + L_phi |G~| L_nu) e + L_phi |G - G~| |nu(z)|)
    """
    bounds = [initial]
    for layer in layers:
        carried = (1 + layer.outer * layer.gain * layer.inner) * bounds[-1]
        bounds.append(layer.behind * (carried + layer.outer * layer.error * layer.input_norm))
    return bounds


def audible(system: ModalSystem) -> ModalSystem:
    """Without the modes that put nothing out in any system of the batch, such as kept ones in an error system."""
    there = system.audible()
    return system.take(np.asarray(there.any(tuple(range(there.ndim - 1)))))


def _alphas(error: ModalSystem) -> np.ndarray:
    """|C_i^d| |B_i|. (*batch, d, n)"""
    norm_c, norm_b = np.sqrt((np.abs(error.c) ** 2).sum(-2)), np.sqrt((np.abs(error.b) ** 2).sum(-1))
    product: np.ndarray = norm_c * norm_b[..., None, :]
    return product


def _largest(values: np.ndarray) -> float:
    return float(values.max(initial=0.0))


def _full_modes(reduction: Reduction) -> int:
    if reduction.kept is not None:
        return int(reduction.kept.shape[-1])
    return reduction.error.modes - reduction.system.modes
