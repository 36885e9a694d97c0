"""S4D: every channel is a SISO system with modes of its own; one stored mode is a conjugate pair, y = 2 Re(C x).

H channels, N stored modes per channel, S independent copies of (A, B) (n_ssm), o readouts per channel, d directions.

Layouts
  standalone s4d.py   kernel.C (H, N, 2), kernel.log_dt (H,), kernel.log_A_real, kernel.A_imag (H, N); B = 1
                      A = -exp(log_A_real) + i A_imag, zero-order hold
  S4 repository       inv_dt (H, 1) or (H, N), A_real, A_imag (S, N), B (1, S, N, 2), C (o, H, N, 2)
                      A = -f(A_real) - i g(A_imag); channel h uses copy h mod S; real-valued kernels (is_real) have no
                      A_imag and no axis of 2. With P (rank, S, N, 2) it is S4: see `aireprune.families.s4`.

What the S4 repository's tensors do not say is taken from the configuration, under its names and with its defaults:
disc (zoh), dt_transform (exp), real_transform (exp), imag_transform (none), dt_fast (no), bandlimit (none),
bidirectional (no).

What is removable (`Units.granularity`)
  mode    (default) mode j of copy t, for all channels that share the copy. With S = H, as usual, every channel's modes
          are independent; state t N + j. A channel's kept modes move to the front of its row and rows are filled up to
          the longest with silent modes (C = 0, a stable pole), so that the arrays stay rectangular. Our own format
          leaves these out again (`aireprune.families.s4d_packed`).
  state   index j in every channel at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from aireprune.arrays import NamedArrays, Shape
from aireprune.errors import AireError
from aireprune.families.base import Layer, Units, anchored, expect_shape, feedthrough, plain_lengths
from aireprune.families.cuts import AxisCut, Cut, RaggedCut
from aireprune.families.s4d_parameters import (
    FILLER,
    SILENT_POLE,
    TRANSFORMS,
    S4DOptions,
    as_complex,
    continuous_poles,
    steps,
)
from aireprune.families.s4d_store import new_readout, new_system
from aireprune.method.discretize import DISCRETIZE
from aireprune.method.states import LayerStates
from aireprune.method.system import ModalSystem


class S4D:
    name = "s4d"
    looked_for = (
        "kernel.C, log_dt, log_A_real, A_imag (standalone S4D); inv_dt, A_real, A_imag, B, C (the S4 repository's "
        "S4D), with P as well (S4)"
    )
    stock = frozenset(
        {"D", "l_kernel", "omega", "z"} | {f"output_linear.{part}" for part in ("weight", "bias", "0.weight", "0.bias")}
    )

    def find(self, arrays: NamedArrays, config: Mapping[str, Any], units: Units = Units()) -> list[Layer[S4DOptions]]:
        shapes = arrays.shapes
        standalone = [
            self._standalone(shapes, prefix)
            for prefix in anchored(shapes, ("log_A_real",), ("log_dt", "A_imag"), ("log_dt", "C"))
        ]
        repository = [
            self._repository(shapes, config, prefix)
            for prefix in anchored(shapes, ("A_real", "inv_dt"), ("inv_dt", "C"), ("A_real", "A_imag"))
        ]
        return [self._counted(layer, units) for layer in standalone + repository]

    def _standalone(self, shapes: Mapping[str, Shape], prefix: str) -> Layer[S4DOptions]:
        why = f"the S4D layer {prefix.rstrip('.') or '(top level)'} needs it"
        h, n = expect_shape(shapes, prefix + "log_A_real", (None, None), why)
        expect_shape(shapes, prefix + "A_imag", (h, n), why)
        expect_shape(shapes, prefix + "C", (h, n, 2), why)
        expect_shape(shapes, prefix + "log_dt", (h,), why)
        roles = ("log_A_real", "A_imag", "C", "log_dt")
        return self._layer(shapes, prefix, roles, S4DOptions(storage="standalone", channels=h, copies=h, modes=n))

    def _repository(self, shapes: Mapping[str, Shape], config: Mapping[str, Any], prefix: str) -> Layer[S4DOptions]:
        why = f"the S4 layer {prefix.rstrip('.') or '(top level)'} needs it"
        s, n = expect_shape(shapes, prefix + "A_real", (None, None), why)
        tail = (2,) if prefix + "A_imag" in shapes else ()
        outputs, h, *_ = expect_shape(shapes, prefix + "C", (None, None, n, *tail), why)
        expect_shape(shapes, prefix + "B", (1, s, n, *tail), why)
        untied = shapes.get(prefix + "inv_dt", (0, 1))[1:] not in ((), (1,))
        expect_shape(shapes, prefix + "inv_dt", (h, n) if untied else (h, 1), why)
        roles = ["A_real", "B", "C", "inv_dt"]
        if tail:
            expect_shape(shapes, prefix + "A_imag", (s, n), why)
            roles.append("A_imag")
        if prefix + "P" in shapes:
            expect_shape(shapes, prefix + "P", (None, s, n, 2), why)
            roles += ["P"] + ["l_kernel"] * (prefix + "l_kernel" in shapes)
        if s and h % s:
            raise AireError(f"Tensor {prefix}C has {h} channels, which the {s} copies of {prefix}A_real do not divide.")
        options = S4DOptions(
            storage="repository",
            channels=h,
            copies=s,
            modes=n,
            directions=2 if config.get("bidirectional", False) else 1,
            untied=untied,
            disc="bilinear" if "P" in roles else config.get("disc", "zoh"),
            dt_transform=config.get("dt_transform", "exp"),
            real_transform=config.get("real_transform", "exp"),
            imag_transform=config.get("imag_transform", "none"),
            dt_fast=bool(config.get("dt_fast", False)),
            bandlimit=config.get("bandlimit"),
        )
        if outputs % options.directions:
            raise AireError(f"Tensor {prefix}C has {outputs} readouts, but a bidirectional layer has an even number.")
        _check_choices(options, prefix)
        return self._layer(shapes, prefix, roles, options)

    def _layer(
        self, shapes: Mapping[str, Shape], prefix: str, roles: Iterable[str], options: S4DOptions
    ) -> Layer[S4DOptions]:
        arrays = {role: prefix + role for role in roles}
        return Layer(self.name, prefix.rstrip("."), 0, arrays, options, feedthrough=feedthrough(shapes, prefix))

    def _counted(self, layer: Layer[S4DOptions], units: Units) -> Layer[S4DOptions]:
        """The layer with its removable states, groups and rows."""
        options = replace(layer.options, granularity=units.granularity)
        if units.granularity == "state":
            return replace(layer, options=options, states=options.modes)
        groups = options.copies if units.even and options.copies else 1
        states = options.modes * options.copies
        return replace(layer, options=options, states=states, groups=groups, rows=options.copies)

    def resized(self, layer: Layer[S4DOptions], size: int) -> Layer[S4DOptions]:
        units = Units(granularity=layer.options.granularity, even=layer.groups > 1)
        return self._counted(replace(layer, options=replace(layer.options, modes=size)), units)

    def describe(self, layers: list[Layer[S4DOptions]]) -> dict[str, Any]:
        return {}

    def modes(
        self, layer: Layer[S4DOptions], arrays: NamedArrays
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """log|lam|, arg lam (H, N), discretised B (H, N) and C (d, o, H, N): y = 2 Re sum_j C_j x_j per channel."""
        read = {role: layer.read(arrays, role) for role in layer.arrays}
        options, h, n = layer.options, layer.options.channels, layer.options.modes
        if options.storage == "standalone":
            pole = -np.exp(read["log_A_real"]) + 1j * read["A_imag"]
            log_radius, angle, factor = DISCRETIZE["zoh"](pole, np.exp(read["log_dt"])[:, None])
            return log_radius, angle, factor, as_complex(read["C"])[None, None]
        if "P" in read and read["P"].any():
            raise AireError(
                f"Layer {layer.name} is S4 with a low-rank part ({layer.arrays['P']}): its modes only exist once it "
                "has been diagonalised (aireprune.families.s4.diagonalize)."
            )
        pole = continuous_poles(read["A_real"], read.get("A_imag"), options)
        b, c = read["B"], read["C"]
        if "A_imag" in read:
            b, c = as_complex(b), as_complex(c)
        step = steps(read["inv_dt"], options)
        copy = np.arange(h) % max(len(pole), 1)  # not options.copies: a new system has as many as channels
        log_radius, angle, factor = DISCRETIZE[options.disc](pole[copy], step)
        c = c.reshape(options.directions, -1, h, n)
        if options.bandlimit is not None:
            c = c * (step * np.abs(pole[copy].imag) / (2 * np.pi) < options.bandlimit / 2)
        if "l_kernel" in read and read["l_kernel"] > 0:  # stored is C (1 - lam^L), tuned to kernels of length L
            c = c / -np.expm1((log_radius + 1j * angle) * float(read["l_kernel"]))
        return log_radius, angle, factor * b[0, copy], c

    def states(self, layer: Layer[S4DOptions], arrays: NamedArrays) -> LayerStates:
        log_radius, angle, b, c = self.modes(layer, arrays)
        cross = b**2 * (c**2).sum(axis=1).mean(axis=0)
        parts = [log_radius, angle, np.abs(b) ** 2, cross, *(np.abs(c) ** 2).sum(axis=1)]
        h, n, s = (layer.options.channels, layer.options.modes, layer.options.copies)
        if layer.options.granularity == "state":
            parts = [part.T for part in parts]
        else:  # channel v S + t belongs to copy t
            parts = [
                np.moveaxis(part.reshape(h // max(s, 1), s, n), 0, -1).reshape(s * n, h // max(s, 1)) for part in parts
            ]
        return LayerStates(layer.name, parts[0], parts[1], parts[2], np.stack(parts[4:]), layer.groups, parts[3])

    def system(self, layer: Layer[S4DOptions], arrays: NamedArrays) -> ModalSystem:
        """One system per channel. Modes beyond a bandlimit have no input, as they have no readout."""
        log_radius, angle, b, c = self.modes(layer, arrays)
        if layer.options.bandlimit is not None:
            b = b * (c != 0).any(axis=(0, 1))
        return ModalSystem(log_radius, angle, b[..., None], np.moveaxis(c, 2, 0))

    def members(self, layer: Layer[S4DOptions]) -> np.ndarray:
        h, n, s = (layer.options.channels, layer.options.modes, layer.options.copies)
        first = np.zeros(h, int) if layer.options.granularity == "state" else np.arange(h) % max(s, 1) * n
        return np.asarray(first[:, None] + np.arange(n))

    def readout(self, layer: Layer[S4DOptions], arrays: NamedArrays, c: np.ndarray) -> dict[str, np.ndarray]:
        log_radius, angle, _, _ = self.modes(layer, arrays)
        return new_readout(layer, arrays, log_radius + 1j * angle, np.moveaxis(c, 0, 2))

    def store(self, layer: Layer[S4DOptions], arrays: NamedArrays, system: ModalSystem) -> dict[str, np.ndarray]:
        return new_system(layer, arrays, system)

    def stored(self, layer: Layer[S4DOptions], kept: np.ndarray) -> int:
        if layer.options.granularity == "state":
            return len(kept)
        return RaggedCut(0, layer.options.copies, layer.options.modes).width(np.asarray(kept, int))

    def cuts(self, layer: Layer[S4DOptions]) -> dict[str, Cut]:
        options = layer.options
        axis = {"log_A_real": 0, "A_imag": 0, "A_real": 0, "B": 1, "P": 1, "inv_dt": 0}  # of the rows
        axis["C"] = 0 if options.storage == "standalone" else 1
        if not options.untied:
            del axis["inv_dt"]
        fill = dict(FILLER)
        if options.storage == "repository":
            fill["A_real"] = float(TRANSFORMS[options.real_transform][1](np.array(SILENT_POLE)))
        cuts: dict[str, Cut] = {}
        for role, name in layer.arrays.items():
            if role not in axis:
                continue
            silent, filled = role == "C", fill.get(role, 0.0)
            if options.granularity == "state":
                cuts[name] = AxisCut(axis[role] + 1, np.arange(layer.states)[:, None], silent, filled)
            else:
                cuts[name] = RaggedCut(axis[role], options.copies, options.modes, silent, filled)
        return {**cuts, **layer.declared}

    def axis_lengths(self, layer: Layer[S4DOptions]) -> dict[int, np.ndarray | None]:
        return plain_lengths(layer.options.modes)


def _check_choices(options: S4DOptions, prefix: str) -> None:
    choices = {"disc": list(DISCRETIZE), **{f"{part}_transform": list(TRANSFORMS) for part in ("dt", "real", "imag")}}
    for key, allowed in choices.items():
        if getattr(options, key) not in allowed:
            raise AireError(
                f"Configuration of {prefix}C: {key} is {getattr(options, key)!r}, not one of {', '.join(allowed)}."
            )
