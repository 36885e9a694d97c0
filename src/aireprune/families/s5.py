"""S5: one MIMO system per layer, states shared by all features.

Layouts
  official Flax   Lambda_re, Lambda_im (P,), log_step (P, 1), B (P, h, 2), D (h,) and the readout as C (h, P, 2),
                  C1 and C2 (bidirectional), or C (h, 2P, 2) (bidirectional, complex_normal)
  s5-pytorch      Lambda (P,) complex, log_step (P,), B (P, h, 2), C (h, P) or (h, 2P) complex; full spectrum

Whether a stored mode stands for a conjugate pair (conj_sym) does not change any ranking, so scores do not need it, and
reductions only see a factor of 2 that they give back. It is taken from the configuration, else from the poles of all
layers together (`stored_in_halves`), here and nowhere else; where neither tells, halves are assumed and a model cannot
be built. New poles of a conjugate half are stored with one sign of Im, those of a full spectrum with both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aireprune.arrays import NamedArrays, Shape
from aireprune.errors import AireError
from aireprune.families.base import Layer, Units, anchored, expect_shape, feedthrough, plain_lengths, positive
from aireprune.families.cuts import AxisCut, Cut
from aireprune.families.storing import packed, rounded, with_signs
from aireprune.method.discretize import DISCRETIZE
from aireprune.method.reductions.poles import to_continuous
from aireprune.method.states import LayerStates, from_modes
from aireprune.method.system import ModalSystem

CLIP_EIGS_AT = -1e-4
SILENT_POLE = -0.5  # Re of the continuous pole that padding states get
STEP_CHOICES = np.linspace(0, 0.1, 128)  # how much smaller the logarithm of a new step may be
ENOUGH_POLES = 8  # poles on one side of the axis that are not there by chance


@dataclass(frozen=True, kw_only=True)
class S5Options:
    discretization: str  # zoh or bilinear
    clip_eigs: bool  # real parts of poles are cut off at CLIP_EIGS_AT
    step_rescale: float
    conj_sym: bool | None  # one of each conjugate pair is stored; None: neither configuration nor poles tell
    directions: int

    @property
    def halves(self) -> bool:
        return self.conj_sym is not False


class S5:
    name = "s5"
    looked_for = "Lambda_re, Lambda_im, log_step, B, C or C1 and C2 (official S5); Lambda, log_step, B, C (s5-pytorch)"
    stock = frozenset({"D"})

    def find(self, arrays: NamedArrays, config: Mapping[str, Any], units: Units = Units()) -> list[Layer[S5Options]]:
        shapes = arrays.shapes
        torch_port = anchored(shapes, ("Lambda", "log_step"), ("Lambda", "B"))
        official = anchored(shapes, ("Lambda_re",), ("Lambda_im",), ("log_step", "B"), ("log_step", "C1"))
        found = [
            *(self._layer(shapes, config, prefix, False) for prefix in official if prefix not in torch_port),
            *(self._layer(shapes, config, prefix, True) for prefix in torch_port),
        ]
        unsaid = [layer for layer in found if layer.options.conj_sym is None]
        halves = stored_in_halves(self._poles(layer, arrays) for layer in unsaid) if unsaid else None
        return [
            replace(layer, options=replace(layer.options, conj_sym=halves)) if layer in unsaid else layer
            for layer in found
        ]

    def _layer(
        self, shapes: Mapping[str, Shape], config: Mapping[str, Any], prefix: str, torch_port: bool
    ) -> Layer[S5Options]:
        why = f"the S5 layer {prefix.rstrip('.') or '(top level)'} needs it"
        poles = ("Lambda",) if torch_port else ("Lambda_re", "Lambda_im")
        (p,) = expect_shape(shapes, prefix + poles[0], (None,), why)
        for role in poles:
            expect_shape(shapes, prefix + role, (p,), why)
        _, h, _ = expect_shape(shapes, prefix + "B", (p, None, 2), why)
        expect_shape(
            shapes, prefix + "log_step", (p,) if len(shapes.get(prefix + "log_step", ())) == 1 else (p, 1), why
        )
        tail = () if torch_port else (2,)
        readouts: tuple[str, ...] = ("C1", "C2") if prefix + "C1" in shapes else ("C",)
        for role in readouts:
            columns = 2 * p if shapes.get(prefix + role, (0, 0))[1:2] == (2 * p,) and readouts == ("C",) else p
            expect_shape(shapes, prefix + role, (h, columns, *tail), why)
        options = S5Options(
            discretization=config.get("discretization", "zoh"),
            clip_eigs=config.get("clip_eigs", False) is True,
            step_rescale=positive(config, "step_rescale", 1.0),
            conj_sym=False if torch_port else _given_symmetry(config),
            directions=2 if readouts == ("C1", "C2") or (p and shapes[prefix + "C"][1] == 2 * p) else 1,
        )
        if options.discretization not in tuple(DISCRETIZE):
            raise AireError(f"Discretization {options.discretization!r} is not one of {', '.join(DISCRETIZE)}.")
        roles = {role: prefix + role for role in (*poles, "log_step", "B", *readouts)}
        return Layer(self.name, prefix.rstrip("."), p, roles, options, feedthrough=feedthrough(shapes, prefix))

    def describe(self, layers: list[Layer[S5Options]]) -> dict[str, Any]:
        known = {layer.options.conj_sym for layer in layers if "Lambda_im" in layer.arrays} - {None}
        return {"conj_sym": known.pop()} if len(known) == 1 else {}

    def _poles(self, layer: Layer[S5Options], arrays: NamedArrays) -> np.ndarray:
        """The continuous poles as they are stored. (P,)"""
        if "Lambda" in layer.arrays:
            return layer.read(arrays, "Lambda").astype(complex)
        return layer.read(arrays, "Lambda_re") + 1j * layer.read(arrays, "Lambda_im")

    def modes(
        self, layer: Layer[S5Options], arrays: NamedArrays
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """log|lam| (P,), arg lam (P,), discretised B (P, h) and C per direction (d, h, P), all in double precision."""
        read = {role: layer.read(arrays, role) for role in layer.arrays}
        pole = self._poles(layer, arrays)
        if layer.options.clip_eigs:
            pole = np.minimum(pole.real, CLIP_EIGS_AT) + 1j * pole.imag
        step = layer.options.step_rescale * np.exp(read["log_step"].reshape(-1))
        log_radius, angle, factor = DISCRETIZE[layer.options.discretization](pole, step)
        b = factor[:, None] * (read["B"][..., 0] + 1j * read["B"][..., 1])
        readouts = [read[role] for role in ("C1", "C2", "C") if role in read]
        c = np.stack([part if np.iscomplexobj(part) else part[..., 0] + 1j * part[..., 1] for part in readouts])
        if len(c) < layer.options.directions:  # one C with the columns of both directions
            c = np.stack(np.split(c[0], 2, axis=1))
        return log_radius, angle, b, c

    def states(self, layer: Layer[S5Options], arrays: NamedArrays) -> LayerStates:
        return from_modes(layer.name, *self.modes(layer, arrays))

    def system(self, layer: Layer[S5Options], arrays: NamedArrays) -> ModalSystem:
        return ModalSystem(*self.modes(layer, arrays), conj=layer.options.halves)

    def members(self, layer: Layer[S5Options]) -> np.ndarray:
        return np.arange(layer.states)

    def resized(self, layer: Layer[S5Options], size: int) -> Layer[S5Options]:
        return replace(layer, states=size)

    def readout(self, layer: Layer[S5Options], arrays: NamedArrays, c: np.ndarray) -> dict[str, np.ndarray]:
        parts = {"C1": c[0], "C2": c[-1], "C": np.concatenate(list(c), axis=1)}
        return {name: packed(parts[role], arrays[name]) for role, name in layer.arrays.items() if role in parts}

    def store(self, layer: Layer[S5Options], arrays: NamedArrays, system: ModalSystem) -> dict[str, np.ndarray]:
        """Steps are about the geometric mean of the old ones, or smaller where clip_eigs would bind.

        arg(lam) is Im(pole) step, and next to the unit circle its rounding error would matter. So a number of slightly
        smaller steps is tried for every mode, and the one whose rounded parameters give lam best is taken.
        """
        options, names = layer.options, layer.arrays
        old = {role: np.asarray(arrays[name]) for role, name in names.items()}
        signs = np.full(system.modes, -1.0 if self._old_imag(old).sum() < 0 else 1.0)
        if not options.halves:
            signs[1::2] *= -1
        system = with_signs(system, signs)
        rescale, method = options.step_rescale, options.discretization
        step = rescale * np.exp((layer.read(arrays, "log_step").mean() if layer.states else 0.0) - STEP_CHOICES)
        shape = (len(STEP_CHOICES), system.modes)
        tried = to_continuous(
            np.broadcast_to(system.log_radius, shape),
            np.broadcast_to(system.angle, shape),
            np.broadcast_to(step[:, None], shape),
            method,
            CLIP_EIGS_AT if options.clip_eigs else None,
        )
        log_step, exact_log_step = rounded(np.log(tried.step / rescale), old["log_step"])
        if "Lambda" in old:
            pole = rounded(tried.pole, old["Lambda"])[1]
        else:
            pole = rounded(tried.pole.real, old["Lambda_re"])[1] + 1j * rounded(tried.pole.imag, old["Lambda_im"])[1]
        log_radius, angle, factor = DISCRETIZE[method](pole, rescale * np.exp(exact_log_step))
        best = np.argmin(np.hypot(log_radius - system.log_radius, angle - system.angle), axis=0), np.arange(shape[1])
        new = {"log_step": log_step[best].reshape(-1, *old["log_step"].shape[1:])}
        new["B"] = packed(system.b / factor[best][:, None], old["B"])  # the factor of the rounded pole and step
        parts = {"Lambda": pole[best], "Lambda_re": pole[best].real, "Lambda_im": pole[best].imag}
        new |= {role: part.astype(old[role].dtype) for role, part in parts.items() if role in old}
        return {names[role]: values for role, values in new.items()} | self.readout(layer, arrays, system.c)

    @staticmethod
    def _old_imag(old: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.sign(old["Lambda"].imag if "Lambda" in old else old["Lambda_im"])

    def stored(self, layer: Layer[S5Options], kept: np.ndarray) -> int:
        return len(kept)

    def cuts(self, layer: Layer[S5Options]) -> dict[str, Cut]:
        one = np.arange(layer.states)[:, None]
        both = np.concatenate([one, one + layer.states], axis=1)
        columns = both if layer.options.directions == 2 and "C" in layer.arrays else one
        cuts: dict[str, Cut] = {}
        for role, name in layer.arrays.items():
            if role in ("C", "C1", "C2"):
                cuts[name] = AxisCut(1, columns, silent=True)
            elif role == "B":
                cuts[name] = AxisCut(0, one, silent=True)
            else:
                cuts[name] = AxisCut(0, one, fill=SILENT_POLE if role in ("Lambda", "Lambda_re") else 0.0)
        return {**cuts, **layer.declared}

    def axis_lengths(self, layer: Layer[S5Options]) -> dict[int, np.ndarray | None]:
        return plain_lengths(layer.states)


def stored_in_halves(poles: Iterable[np.ndarray]) -> bool | None:
    """Whether one of each conjugate pair is stored, as far as the poles of all layers tell.

    Conjugates of each other in a layer: no. All on one side of the real axis, and too many for chance: yes. Else None.
    """
    signs: list[float] = []
    for layer in poles:
        re, im = layer.real, layer.imag
        pairs = np.isclose(re[:, None], re[None], rtol=1e-3) & np.isclose(im[:, None], -im[None], rtol=1e-3)
        if (pairs & (np.abs(im) > 1e-6)).any():
            return False
        signs.extend(np.sign(im))
    return True if len(signs) >= ENOUGH_POLES and len(set(signs)) == 1 else None


def _given_symmetry(config: Mapping[str, Any]) -> bool | None:
    """conj_sym of the configuration; None if it says nothing."""
    value = config.get("conj_sym")
    if value is not None and not isinstance(value, bool):
        raise AireError(f"The configuration says conj_sym = {value!r}; expected true or false.")
    return value
