"""LRU: one MIMO system per layer, already discrete, full spectrum.

    lam = exp(-exp(nu_log) + i exp(theta_log)) ,   y = Re(C x)

Layouts
  minimal-LRU (Flax)   nu_log, theta_log, gamma_log (N,), B_re, B_im (N, h), C_re, C_im (o, N)
  LRU-pytorch          nu_log, theta_log, gamma_log (N,), B (N, h) complex, C (o, N) complex
Either may be bidirectional, with the columns of both directions in one C (o, 2N). The discrete input matrix is
exp(gamma_log) B; without gamma_log (variants that drop the normalisation) it is B. log|lam| = -exp(nu_log) is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aireprune.arrays import NamedArrays, Shape
from aireprune.families.base import Layer, Units, anchored, expect_shape, feedthrough, plain_lengths
from aireprune.families.cuts import AxisCut, Cut
from aireprune.families.storing import TINY_ANGLE, rounded, with_signs
from aireprune.method.states import LayerStates, from_modes
from aireprune.method.system import ModalSystem

SILENT_NU_LOG = -1.0  # padding states get the pole exp(-exp(-1)), about 0.69 in modulus


@dataclass(frozen=True, kw_only=True)
class LRUOptions:
    directions: int


class LRU:
    name = "lru"
    looked_for = "nu_log, theta_log, gamma_log, B_re, B_im, C_re, C_im, or B and C complex"
    stock = frozenset({"D"})

    def find(self, arrays: NamedArrays, config: Mapping[str, Any], units: Units = Units()) -> list[Layer[LRUOptions]]:
        return [self._layer(arrays.shapes, prefix) for prefix in anchored(arrays.shapes, ("nu_log",), ("theta_log",))]

    def _layer(self, shapes: Mapping[str, Shape], prefix: str) -> Layer[LRUOptions]:
        why = f"the LRU layer {prefix.rstrip('.') or '(top level)'} needs it"
        (n,) = expect_shape(shapes, prefix + "nu_log", (None,), why)
        poles = ["nu_log", "theta_log"] + ["gamma_log"] * (prefix + "gamma_log" in shapes)
        for role in poles:
            expect_shape(shapes, prefix + role, (n,), why)
        whole = prefix + "B" in shapes
        inputs, readouts = (["B"], ["C"]) if whole else (["B_re", "B_im"], ["C_re", "C_im"])
        for role in inputs:
            expect_shape(shapes, prefix + role, (n, None), why)
        both = n > 0 and shapes.get(prefix + readouts[0], ())[1:] == (2 * n,)
        for role in readouts:
            expect_shape(shapes, prefix + role, (None, 2 * n if both else n), why)
        arrays = {role: prefix + role for role in (*poles, *inputs, *readouts)}
        options = LRUOptions(directions=2 if both else 1)
        return Layer(self.name, prefix.rstrip("."), n, arrays, options, feedthrough=feedthrough(shapes, prefix))

    def describe(self, layers: list[Layer[LRUOptions]]) -> dict[str, Any]:
        return {}

    def modes(
        self, layer: Layer[LRUOptions], arrays: NamedArrays
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """log|lam| (N,), arg lam (N,), discrete B (N, h) and C per direction (d, o, N), all in double precision."""
        read = {role: layer.read(arrays, role) for role in layer.arrays}
        b = read["B"] if "B" in read else read["B_re"] + 1j * read["B_im"]
        c = read["C"] if "C" in read else read["C_re"] + 1j * read["C_im"]
        if "gamma_log" in read:
            b = np.exp(read["gamma_log"])[:, None] * b
        c = np.stack(np.split(c, layer.options.directions, axis=1))
        return -np.exp(read["nu_log"]), np.exp(read["theta_log"]), b, c

    def states(self, layer: Layer[LRUOptions], arrays: NamedArrays) -> LayerStates:
        return from_modes(layer.name, *self.modes(layer, arrays))

    def system(self, layer: Layer[LRUOptions], arrays: NamedArrays) -> ModalSystem:
        return ModalSystem(*self.modes(layer, arrays), conj=False)

    def members(self, layer: Layer[LRUOptions]) -> np.ndarray:
        return np.arange(layer.states)

    def resized(self, layer: Layer[LRUOptions], size: int) -> Layer[LRUOptions]:
        return replace(layer, states=size)

    def readout(self, layer: Layer[LRUOptions], arrays: NamedArrays, c: np.ndarray) -> dict[str, np.ndarray]:
        return self._complex(layer, arrays, "C", np.concatenate(list(c), axis=1))

    def store(self, layer: Layer[LRUOptions], arrays: NamedArrays, system: ModalSystem) -> dict[str, np.ndarray]:
        """theta = exp(theta_log) is positive, so the conjugates of poles with a negative angle are stored.

        gamma is LRU's normalisation sqrt(1 - |lam|^2); B takes up the rest.
        """
        system = with_signs(system, np.ones(system.modes))
        new = {"nu_log": np.log(-system.log_radius), "theta_log": np.log(np.maximum(system.angle, TINY_ANGLE))}
        b = system.b
        if "gamma_log" in layer.arrays:
            gamma_log = np.log(-np.expm1(2 * system.log_radius)) / 2
            new["gamma_log"], exact = rounded(gamma_log, np.asarray(arrays[layer.arrays["gamma_log"]]))
            b = b / np.exp(exact)[:, None]
        stored = {layer.arrays[role]: values.astype(arrays[layer.arrays[role]].dtype) for role, values in new.items()}
        return stored | self._complex(layer, arrays, "B", b) | self.readout(layer, arrays, system.c)

    def _complex(
        self, layer: Layer[LRUOptions], arrays: NamedArrays, role: str, values: np.ndarray
    ) -> dict[str, np.ndarray]:
        """A complex matrix in the layout of the layer: one array, or one for each part."""
        parts = {role: values} if role in layer.arrays else {f"{role}_re": values.real, f"{role}_im": values.imag}
        return {layer.arrays[key]: part.astype(arrays[layer.arrays[key]].dtype) for key, part in parts.items()}

    def stored(self, layer: Layer[LRUOptions], kept: np.ndarray) -> int:
        return len(kept)

    def cuts(self, layer: Layer[LRUOptions]) -> dict[str, Cut]:
        one = np.arange(layer.states)[:, None]
        columns = np.concatenate([one, one + layer.states], axis=1) if layer.options.directions == 2 else one
        cuts: dict[str, Cut] = {}
        for role, name in layer.arrays.items():
            if role.startswith("C"):
                cuts[name] = AxisCut(1, columns, silent=True)
            elif role.startswith("B"):
                cuts[name] = AxisCut(0, one, silent=True)
            else:
                cuts[name] = AxisCut(0, one, fill=SILENT_NU_LOG if role == "nu_log" else 0.0)
        return {**cuts, **layer.declared}

    def axis_lengths(self, layer: Layer[LRUOptions]) -> dict[int, np.ndarray | None]:
        return plain_lengths(layer.states)
