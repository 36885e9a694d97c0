"""`refit`: keep poles and inputs of the kept modes K, give them the H2-optimal readout (docs/method.md section 5).

    C~ = C P[:, K] P[K, K]^-1 = C_K + C_T P[T, K] P[K, K]^-1        T = the pruned modes

This is the orthogonal projection of the layer's output onto the kept states, when the input is white (Antoulas 2005,
section 5.5) or, with a measured covariance in place of P, when it is like the inputs that were measured.

Two directions: the true operator's energy splits into C1 + C2 under P + BB' and C1 - C2 under P - BB' (see
`gramians`), so the joint optimum of both readouts is two problems of the size of one. A measured covariance is used
for each direction.

Everything happens in the real states (Re x, Im x), so conjugate halves stay consistent. P[K, K] is scaled to unit
diagonal; eigenvalues below `rcond` of the largest are left out, and in those directions the readout stays the
truncated one.
"""

from __future__ import annotations

import numpy as np

from aireprune.method.gramians import controllability, energy, energy_under
from aireprune.method.reductions.base import Reduction, as_mask
from aireprune.method.system import ModalSystem, concatenate
from aireprune.method.threads import single_threaded

RCOND = 1e-9  # a readout that cancels more than this in the states would not survive single precision


@single_threaded
def refit(
    system: ModalSystem,
    kept: np.ndarray,
    covariance: np.ndarray | None = None,
    horizon: int | None = None,
    rcond: float = RCOND,
) -> Reduction:
    """The best readout on the kept modes (indices, or bools of shape (*batch, n)).

    covariance: of the real states (Re x, Im x), (*batch, 2n, 2n), in place of the closed-form P. `error_energy` is
    always the closed-form one. Where the refit is not better than truncation (rounding), truncation is what is
    returned.
    """
    mask = as_mask(system, kept)
    c = refit_readout(system, mask, covariance, horizon, rcond)
    error = system.with_c(system.c - c)
    return Reduction(
        method="refit",
        system=system.with_c(c).gather(mask),
        error=error,
        order=mask.sum(-1),
        kept=mask,
        energy=energy(system, horizon),
        error_energy=energy(error, horizon),
    )


def refit_readout(
    system: ModalSystem,
    mask: np.ndarray,
    covariance: np.ndarray | None = None,
    horizon: int | None = None,
    rcond: float = RCOND,
) -> np.ndarray:
    """C~ (*batch, d, o, n), zero on modes that are not in mask (*batch, n)."""
    truncated = np.where(mask[..., None, None, :], system.c, 0)
    lost = system.with_c(system.c - truncated)  # what the pruned modes put out, to be imitated
    p = controllability(system, horizon) if covariance is None else covariance
    joint = system.directions == 2 and covariance is None
    readout = lost.real_c()
    if joint:
        overlap = system.real_b() @ np.swapaxes(system.real_b(), -1, -2)
        plus = _project(readout[..., 0, :, :] + readout[..., 1, :, :], p + overlap, mask, rcond)
        minus = _project(readout[..., 0, :, :] - readout[..., 1, :, :], p - overlap, mask, rcond)
        imitation = np.stack([(plus + minus) / 2, (plus - minus) / 2], -3)
    else:
        rows = readout.reshape(*system.batch, system.directions * system.outputs, 2 * system.modes)
        imitation = _project(rows, p, mask, rcond).reshape(readout.shape)
    refitted = truncated + system.from_real_c(imitation)
    better = energy_under(system.with_c(system.c - refitted), p, not joint) < energy_under(lost, p, not joint)
    return np.where(better[..., None, None, None], refitted, truncated)


def readout_for(full: ModalSystem, reduced: ModalSystem, horizon: int | None = None) -> ModalSystem:
    """The reduced system with the H2-optimal readout for its poles and inputs, whatever they are.

    The same projection in the parallel connection of both systems, whose kept modes are the reduced ones.
    """
    both = concatenate([full, reduced.with_c(np.zeros_like(reduced.c))])
    mask = np.concatenate([np.zeros(full.log_radius.shape, bool), np.ones(reduced.log_radius.shape, bool)], -1)
    c = refit_readout(both, mask, horizon=horizon)[..., full.modes :]
    return reduced.with_c(c * (full.share / reduced.share))


def _project(readout: np.ndarray, p: np.ndarray, mask: np.ndarray, rcond: float) -> np.ndarray:
    """readout P[:, K] P[K, K]^+ for real readouts (*batch, o, 2n), zero outside K, the states of the modes in mask."""
    half = mask.shape[-1]
    size = int(mask.sum(-1).max(initial=0))
    order = np.argsort(~mask, axis=-1, kind="stable")[..., :size]
    index = np.concatenate([order, order + half], -1)  # (*batch, 2 size): real states, kept ones first
    valid = np.take_along_axis(np.concatenate([mask, mask], -1), index, -1)
    kept_rows = np.take_along_axis(p, index[..., :, None], -2)  # P[K, :]
    gram = np.take_along_axis(kept_rows, index[..., None, :], -1)
    side = readout @ np.swapaxes(kept_rows, -1, -2)
    diagonal = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0))
    inverse = np.where(valid & (diagonal > 0), 1 / np.where(diagonal > 0, diagonal, 1), 0)  # filling states drop out
    values, vectors = np.linalg.eigh(gram * inverse[..., :, None] * inverse[..., None, :])
    used = values > rcond * values[..., -1:] if size else values > 0
    weights = np.where(used, 1 / np.where(used, values, 1), 0)
    scaled = (((side * inverse[..., None, :]) @ vectors) * weights[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    out = np.zeros(readout.shape)
    np.put_along_axis(out, np.broadcast_to(index[..., None, :], scaled.shape), scaled * inverse[..., None, :], -1)
    return out
