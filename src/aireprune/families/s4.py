"""S4 (diagonal plus low rank) becomes S4D: an exact change of basis, done when a checkpoint is opened.

The S4 repository's DPLR kernel has, per copy, A = diag(a) - P P* on the states and their conjugates together. In the
real coordinates (Re z, Im z) of the stored half z that is the real matrix

    M = [[Re a, -Im a], [Im a, Re a]] - 2 [Re P; Im P] [Re P, Im P]      (rank r: summed over r)

whose eigenvalues are the modes: conjugate pairs, stored by one of the two, and real poles, stored with half their C.
The step size does not enter, since the bilinear transform only maps eigenvalues, nor does the length that C is tuned
to: C (I - A^L) V = C V (I - lam^L). Real poles need a row each where a pair shares one, so rows may get longer.

The result has P = 0 and B = 1 and loads in the S4 repository's DPLR kernel as it is (with d_state = 2 x the new row
length), as well as in its diagonal kernel with disc='bilinear'. Matrices close to HiPPO-LegS are nearly defective and
have no usable eigenbasis; the transfer function of the result, in the file's single precision, is compared with the
original and a layer that changed by more than TOLERANCE is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aireprune.arrays import Edit, NamedArrays, Replaced
from aireprune.errors import AireError
from aireprune.families.base import Layer, Units
from aireprune.families.leftover import settle_leftovers
from aireprune.families.s4d import S4D
from aireprune.families.s4d_parameters import SILENT_POLE, TRANSFORMS, S4DOptions, continuous_poles

TOLERANCE = 1e-3
NODES = 128


class Diagonalized(Replaced):
    """Named arrays in which every S4 layer has been replaced by its diagonal equivalent; all else shows through."""

    def __init__(self, arrays: NamedArrays, new: Mapping[str, np.ndarray], notices: list[str]):
        super().__init__(arrays, new)
        self.notices = notices

    def edits(self, edits: Mapping[str, Edit]) -> dict[str, Edit]:
        """Edits of this view as edits of the arrays behind it: they also bring in the new values."""

        def through(name: str) -> Edit:
            def edit(old: np.ndarray) -> np.ndarray:
                new = self.new[name].astype(old.dtype)
                return edits[name](new) if name in edits else new

            return edit

        return {**edits, **{name: through(name) for name in self.new}}


def diagonalize(arrays: NamedArrays, config: Mapping[str, Any], units: Units | None = None) -> Diagonalized | None:
    """A view of the arrays without low-rank parts, or None if there are none. `notices` says what was done."""
    replaced: dict[str, np.ndarray] = {}
    notices = []
    for layer in _with_low_rank_parts(arrays, config, units or Units()):
        new, error = _diagonal_layer(layer, arrays)
        replaced.update({layer.arrays[role]: values for role, values in new.items()})
        notices.append(
            f"{layer.name}: S4 with a low-rank part was diagonalised into {new['A_real'].shape[1]} modes per channel "
            f"(from {layer.options.modes}); its transfer function changed by {error:.1e} relative to its peak."
        )
    return Diagonalized(arrays, replaced, notices) if replaced else None


def _with_low_rank_parts(arrays: NamedArrays, config: Mapping[str, Any], units: Units) -> list[Layer[S4DOptions]]:
    """The layers to diagonalise; none may have further tensors along its states, which become others."""
    family = S4D()
    found = [
        layer for layer in family.find(arrays, config, units) if "P" in layer.arrays and layer.read(arrays, "P").any()
    ]
    for layer in settle_leftovers(found, arrays.shapes, units.state_axes, {family.name: family}):
        if layer.declared:
            raise AireError(
                f"Layer {layer.name} is S4 with a low-rank part: it is diagonalised before it is cut, and its states "
                f"then are others than those of {', '.join(layer.declared)}, which state_axis= names."
            )
    return found


def _diagonal_layer(layer: Layer[S4DOptions], arrays: NamedArrays) -> tuple[dict[str, np.ndarray], float]:
    """New arrays by role, in single precision, and by how much they change the layer."""
    options = layer.options
    if options.untied or options.bandlimit is not None or options.dt_fast:
        raise AireError(f"Layer {layer.name}: S4 with untied steps, bandlimit or dt_fast cannot be diagonalised.")
    read = {role: layer.read(arrays, role) for role in layer.arrays}
    a = continuous_poles(read["A_real"], read["A_imag"], options)  # (S, N)
    p, b, c = (read[role][..., 0] + 1j * read[role][..., 1] for role in ("P", "B", "C"))  # (r,S,N) (1,S,N) (o,H,N)
    pole, residue = modes_of_dplr(a, p, b[0], c.reshape(len(c), -1, *a.shape))  # (S, M), (o, v, S, M)
    new = {
        "A_real": _invert(options.real_transform, -pole.real, layer.arrays["A_real"]),
        "A_imag": _invert(options.imag_transform, np.maximum(-pole.imag, 0), layer.arrays["A_imag"]),
        "B": np.stack([np.ones((1, *pole.shape)), np.zeros((1, *pole.shape))], axis=-1),
        "C": np.stack([residue.real, residue.imag], axis=-1).reshape(len(c), -1, pole.shape[1], 2),
        "P": np.zeros((*p.shape[:2], pole.shape[1], 2)),
    }
    new = {role: values.astype(np.float32) for role, values in new.items()}
    stored = continuous_poles(new["A_real"].astype(float), new["A_imag"].astype(float), options)
    rounded = (new["C"][..., 0] + 1j * new["C"][..., 1].astype(float)).reshape(residue.shape)
    step = TRANSFORMS[options.dt_transform][0](read["inv_dt"][:, 0]).reshape(-1, len(a))  # (v, S)
    z = np.exp(-1j * np.pi * np.arange(NODES) / NODES)
    s = 2 / step[..., None] * (1 - z) / (1 + z)  # (v, S, F)
    before = _transfer(a, p, b[0], c.reshape(len(c), -1, *a.shape), s)
    after = _transfer(stored, 0 * new["P"][..., 0], np.ones_like(stored), rounded, s)
    peak = np.abs(before).max(axis=-1)
    change = np.abs(after - before).max(axis=-1) / np.where(peak > 0, peak, 1)
    error = float(change.max(initial=0)) if np.isfinite(change).all() else np.inf
    if error > TOLERANCE:
        raise AireError(
            f"Layer {layer.name} is S4 with a low-rank part that has no usable diagonal form (its transfer function "
            f"would change by {error:.1e} relative to its peak, more than {TOLERANCE}): its matrix is too close to "
            "HiPPO's."
        )
    return new, error


def modes_of_dplr(a: np.ndarray, p: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Poles (S, M) with Im <= 0 and residues (o, v, S, M) of a (S, N), P (r, S, N), B (S, N), C (o, v, S, N).

    y = 2 Re sum_j residue_j x_j with x driven by u itself (B = 1). Short rows are filled with silent modes.
    """
    low = np.concatenate([p.real, p.imag], axis=-1)  # (r, S, 2N)
    top, bottom = (
        np.concatenate(pair, axis=-1) for pair in ((_diag(a.real), -_diag(a.imag)), (_diag(a.imag), _diag(a.real)))
    )
    m = np.concatenate([top, bottom], axis=-2) - 2 * np.einsum("rsi,rsj->sij", low, low)
    value, vector = np.linalg.eig(m)
    drive = np.linalg.solve(vector, np.concatenate([b.real, b.imag], axis=-1)[..., None] + 0j)[..., 0]
    gain = np.einsum("ovsn,snm->ovsm", 2 * np.concatenate([c.real, -c.imag], axis=-1), vector) * drive
    keep = value.imag <= 0
    width = int(keep.sum(axis=1).max())
    front = np.argsort(~keep, axis=1, kind="stable")[:, :width]
    there = np.take_along_axis(keep, front, axis=1)
    pole = np.where(there, np.take_along_axis(value + 0j, front, axis=1), -SILENT_POLE)
    share = np.where(pole.imag < 0, 1.0, 0.5) * there  # a real pole is stored with half its readout
    return pole, np.take_along_axis(gain, front[None, None], axis=-1) * share


def _diag(rows: np.ndarray) -> np.ndarray:
    return rows[..., None] * np.eye(rows.shape[-1])


def _transfer(a: np.ndarray, p: np.ndarray, b: np.ndarray, c: np.ndarray, s: np.ndarray) -> np.ndarray:
    """C (s - A)^{-1} B with both halves, by Woodbury. a, B (S,N), P (r,S,N), C (o,v,S,N), s (v,S,F) -> (o,v,S,F)."""

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """left (i, v or 1, S, N), right (j, S, N) -> (i, j, v, S, F): sum over both halves of left right / (s - a)."""
        out = np.zeros((len(left), len(right), *s.shape), complex)
        for n in range(a.shape[-1]):
            one, two = 1 / (s - a[:, n, None]), 1 / (s - a[:, n, None].conj())
            weight = left[:, None, :, :, n] * right[None, :, None, :, n]
            out += weight[..., None] * one + weight.conj()[..., None] * two
        return out

    q = p.conj()[:, None]
    cb, cp = product(c, b[None])[:, 0], product(c, p)
    pb, pp = product(q, b[None])[:, 0], product(q, p)
    middle = np.moveaxis(pp, (0, 1), (-2, -1)) + np.eye(len(p))
    inner = np.linalg.solve(middle, np.moveaxis(pb, 0, -1)[..., None])[..., 0]
    return np.asarray(cb - np.einsum("orvsf,vsfr->ovsf", cp, inner))


def _invert(transform: str, positive: np.ndarray, name: str) -> np.ndarray:
    forward, backward = TRANSFORMS[transform]
    with np.errstate(all="ignore"):
        stored = backward(positive)
        back = forward(stored)
    if not np.allclose(back, positive, rtol=1e-5, atol=1e-12):
        raise AireError(f"The diagonal form of {name} cannot be stored under the transform {transform!r}.")
    return stored
