"""S4 (diagonal plus low rank) becomes S4D when a checkpoint is opened: docs/method.md sections 1.5 and 1.6.

Where its matrix has a usable eigenbasis that is an exact change of basis. The step size does not enter, since the
bilinear transform only maps eigenvalues, nor does the length that C is tuned to: C (I - A^L) V = C V (I - lam^L). Real
poles need a row each where a pair shares one, so rows may get longer.

Matrices close to HiPPO-LegS are nearly defective. Channels whose poles are conditioned worse than MAX_CONDITION, or whose
transfer function would change by more than TOLERANCE in single precision, are replaced by diagonal ones that are fitted
to their impulse responses, and how far these are off is said. Every channel then gets poles of its own.

The result has P = 0 and B = 1 and loads in the S4 repository's DPLR kernel as it is (with d_state = 2 x the new row
length, and n_ssm = H where channels were fitted), as well as in its diagonal kernel with disc='bilinear'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aireprune.arrays import Edit, NamedArrays, Replaced
from aireprune.errors import AireError
from aireprune.families.base import Layer, Units
from aireprune.families.leftover import settle_leftovers
from aireprune.families.s4_dplr import DPLR
from aireprune.families.s4_older import Renamed, under_todays_names
from aireprune.families.s4d import S4D
from aireprune.families.s4d_parameters import TRANSFORMS, S4DOptions
from aireprune.families.s4d_store import new_system
from aireprune.method.diagonal_fit import DiagonalFit, fit_diagonal
from aireprune.method.gramians import energy
from aireprune.method.reductions.diagonal import MAX_CONDITION, put, silent_like
from aireprune.method.system import ModalSystem

TOLERANCE = 1e-3  # of the peak of a transfer function
WORST = 0.1  # relative H2 error of a layer, from which on it is not the same any more
NODES = 128
FAMILY = S4D()
EPS = float(np.finfo(np.float32).eps) / 2


class Diagonalized(Replaced):
    """Named arrays in which every S4 layer has been replaced by a diagonal one; all else shows through.

    notices: what was done. errors: relative H2 error of layers, by name, that had to be fitted.
    """

    def __init__(self, arrays: NamedArrays, done: Mapping[str, DiagonalLayer]):
        super().__init__(arrays, {name: values for layer in done.values() for name, values in layer.arrays.items()})
        self.notices = [f"{name}: {layer.notice}" for name, layer in done.items()]
        self.errors = {name: layer.error for name, layer in done.items() if layer.error is not None}

    def edits(self, edits: Mapping[str, Edit]) -> dict[str, Edit]:
        """Edits of this view as edits of the checkpoint behind it: they also bring in the new values."""

        def through(name: str) -> Edit:
            def edit(old: np.ndarray) -> np.ndarray:
                new = self.new[name].astype(old.dtype)
                return edits[name](new) if name in edits else new

            return edit

        done = {**edits, **{name: through(name) for name in self.new}}
        return self._arrays.edits(done) if isinstance(self._arrays, Renamed) else done


@dataclass(frozen=True)
class DiagonalLayer:
    """New arrays by full name, in single precision; what to tell the user; the relative H2 error if it was fitted."""

    arrays: Mapping[str, np.ndarray]
    notice: str
    error: float | None = None


def diagonalize(arrays: NamedArrays, config: Mapping[str, Any], units: Units | None = None) -> Diagonalized | None:
    """A view of the arrays under today's names and without low-rank parts, or None if they are that already."""
    older = under_todays_names(arrays, config)
    today: NamedArrays = older or arrays
    found = _with_low_rank_parts(today, config, units or Units())
    done = {layer.name: _diagonal_layer(layer, today) for layer in found}
    return Diagonalized(today, done) if done or older else None


def diagonal_error(arrays: NamedArrays, layer: str) -> float | None:
    """Relative H2 error with which a layer was made diagonal on opening; None if it was diagonal, or became so exactly."""
    return arrays.errors.get(layer) if isinstance(arrays, Diagonalized) else None


def _with_low_rank_parts(arrays: NamedArrays, config: Mapping[str, Any], units: Units) -> list[Layer[S4DOptions]]:
    """The layers to diagonalise; none may have further tensors along its states, which become others."""
    found = [
        layer for layer in FAMILY.find(arrays, config, units) if "P" in layer.arrays and layer.read(arrays, "P").any()
    ]
    for layer in settle_leftovers(found, arrays.shapes, units.state_axes, {FAMILY.name: FAMILY}):
        if layer.declared:
            raise AireError(
                f"Layer {layer.name} is S4 with a low-rank part: it is diagonalised before it is cut, and its states "
                f"then are others than those of {', '.join(layer.declared)}, which state_axis= names."
            )
    return found


def _diagonal_layer(layer: Layer[S4DOptions], arrays: NamedArrays) -> DiagonalLayer:
    if layer.options.untied or layer.options.bandlimit is not None:
        raise AireError(f"Layer {layer.name}: S4 with untied steps or bandlimit cannot be diagonalised.")
    dplr = DPLR.read(layer, arrays)
    exact, condition = _exact_arrays(layer, dplr)
    change = _changes(dplr, DPLR.read(layer, Replaced(arrays, exact)))
    usable = (condition <= MAX_CONDITION) & (change <= TOLERANCE)  # (S,)
    if not usable.all():
        return _fitted_layer(layer, arrays, dplr, exact, np.tile(usable, dplr.channels // len(usable)))
    return DiagonalLayer(
        exact,
        f"S4 with a low-rank part was diagonalised into {_width(layer, exact)} modes per channel (from "
        f"{layer.options.modes}); its transfer function changed by {change.max(initial=0):.1e} relative to its peak.",
    )


def _exact_arrays(layer: Layer[S4DOptions], dplr: DPLR) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The arrays of an exact change of basis, and the condition of the worst pole of every copy (S,)."""
    pole, residue, condition = dplr.modes()
    ones = np.ones((1, *pole.shape))
    with np.errstate(all="ignore"):  # what a transform cannot hold shows when the result is compared
        new = {
            "A_real": TRANSFORMS[layer.options.real_transform][1](-pole.real),
            "A_imag": TRANSFORMS[layer.options.imag_transform][1](np.maximum(-pole.imag, 0)),
            "B": np.stack([ones, 0 * ones], axis=-1),
            "C": np.stack([residue.real, residue.imag], axis=-1).reshape(len(residue), dplr.channels, -1, 2),
            "P": np.zeros((len(dplr.p), *pole.shape, 2)),
        }
        single = {layer.arrays[role]: np.nan_to_num(values.astype(np.float32)) for role, values in new.items()}
    return single, condition


def _changes(before: DPLR, after: DPLR) -> np.ndarray:
    """By how much the transfer functions of the channels of each copy differ, relative to their peaks. (S,)"""
    z = np.exp(-1j * np.pi * np.arange(NODES) / NODES)
    s = 2 / before.step[..., None] * (1 - z) / (1 + z)  # (v, S, F)
    response = before.transfer(s)
    peak = np.abs(response).max(axis=-1)
    change = np.abs(after.transfer(s) - response).max(axis=-1) / np.where(peak > 0, peak, 1)
    return np.asarray(np.where(np.isfinite(change), change, np.inf).max(axis=(0, 1)))


def _fitted_layer(
    layer: Layer[S4DOptions], arrays: NamedArrays, dplr: DPLR, exact: dict[str, np.ndarray], usable: np.ndarray
) -> DiagonalLayer:
    """Channels (H,) without a usable eigenbasis are fitted, the others are what the exact change of basis makes them."""
    fit = _fit(layer, arrays, dplr, np.flatnonzero(~usable))
    changed = FAMILY.system(FAMILY.resized(layer, _width(layer, exact)), Replaced(arrays, exact))
    others = changed.member(usable)
    used = int(fit.system.audible().sum(-1).max(initial=0))  # they come first
    whole = silent_like(changed, max(used, others.modes if usable.any() else 0))
    put(whole, np.flatnonzero(usable), others)
    put(whole, np.flatnonzero(~usable), fit.system)
    error = float(np.sqrt(fit.error_energy.sum() / ((fit.energy.sum() + energy(others).sum()) or 1.0)))
    if not error <= WORST:
        raise AireError(
            f"Layer {layer.name} is S4 with a matrix that has no usable eigenbasis, and the closest diagonal layer that "
            f"was found is off by {error:.1%} of its H2 norm (more than {WORST:.0%} is refused). It cannot be pruned."
        )
    notice = (
        f"S4 with a low-rank part has no usable eigenbasis in {(~usable).sum()} of {len(usable)} channels; diagonal ones "
        f"were fitted to their impulse responses, {whole.modes} modes per channel (from {layer.options.modes}). The "
        f"layer's relative H2 error is {error:.1e}, that of its worst channel {fit.relative_errors.max():.1e}."
    )
    every, view = _some_channels(layer, arrays, np.arange(len(usable)), len(dplr.p))
    return DiagonalLayer(new_system(every, view, whole), notice, error)


def _fit(layer: Layer[S4DOptions], arrays: NamedArrays, dplr: DPLR, channels: np.ndarray) -> DiagonalFit:
    """Diagonal systems for some channels, in rows as long as the layer's, or longer where that helps real poles."""
    real = dplr.realization(channels)

    def stored(system: ModalSystem, members: np.ndarray) -> ModalSystem:
        mine, view = _some_channels(layer, arrays, channels[members], len(dplr.p))
        with np.errstate(all="ignore"):  # what a transform cannot hold makes the system another one
            new = {name: np.nan_to_num(values) for name, values in new_system(mine, view, system).items()}
        return FAMILY.system(FAMILY.resized(mine, system.modes), Replaced(view, new))

    fit = fit_diagonal(real, layer.options.modes, stored, EPS)
    if fit.relative_errors.max() <= TOLERANCE:
        return fit
    longer = fit_diagonal(real, 2 * layer.options.modes, stored, EPS)
    return longer if longer.error_energy.sum() < fit.error_energy.sum() else fit


def _some_channels(
    layer: Layer[S4DOptions], arrays: NamedArrays, channels: np.ndarray, rank: int
) -> tuple[Layer[S4DOptions], Replaced]:
    """Channels (m,) of a layer as a layer of their own whose m copies of (A, B) are still to be written."""
    count, names = len(channels), layer.arrays
    outputs = arrays.shapes[names["C"]][0]
    shapes = {
        "A_real": (count, 1),
        "A_imag": (count, 1),
        "B": (1, count, 1, 2),
        "C": (outputs, count, 1, 2),
        "P": (rank, count, 1, 2),
    }
    new = {names[role]: np.zeros(shape, np.float32) for role, shape in shapes.items()}
    new[names["inv_dt"]] = np.asarray(arrays[names["inv_dt"]])[channels]
    return replace(layer, options=replace(layer.options, channels=count, copies=count, modes=1)), Replaced(arrays, new)


def _width(layer: Layer[S4DOptions], new: Mapping[str, np.ndarray]) -> int:
    return int(new[layer.arrays["A_real"]].shape[1])
