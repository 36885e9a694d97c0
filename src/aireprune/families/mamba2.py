"""Mamba-2 mixers: one decay per head, B and C shared by a group of heads (also in Bamba, Zamba2, FalconH1, Nemotron-H).

Layout, H heads, G groups, N states per group, d = channels of the state space part:

    in_proj.weight   rows [MLP: 2 d_mlp (rarely) | z: d | x: d | B: G N | C: G N | dt: H]
    conv1d.weight    (d + 2 G N, 1, k), channels [x | B | C]
    A_log, dt_bias   (H,)
    norm.weight      (d,), where there is one

The removable unit is the index j of a group, unit g N + j, and every group must keep equally many. It holds one mode
per head of its group (m = H / G); each mode stands for the head's head_dim channels, which share its pole and gates.

A projected layer (`aireprune.method.projection`) has two tensors more, which make the gates of its N' states from the N
values of B and C in each group. Its units are the states, rows of

    B_proj, C_proj   (G N', N)

The data-free energy is Mamba-1's (see `aireprune.families.mamba`) with two differences. The pole is the head's,
log|lam| = -softplus(dt_bias) exp(A_log), so 1/(1 - lam^2) is the same for all states of a head and [energy] orders
the states of a group by E[B_j^2] E[C_j^2]. And B and C pass through the convolution and a SiLU themselves: for a
white input u of unit variance the pre-activation s of a channel with in_proj row w, in_proj bias v, taps k and
convolution bias q is

    s ~ N(q + v sum(k), |k|^2 |w|^2),   E[B_j^2] = E[silu(s)^2], by Gauss-Hermite quadrature.

Behind a projection, with the values taken as independent, E[(R'B)_j^2] = sum_i R_ij^2 var(B_i) + (R'E[B])_j^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.arrays import NamedArrays, Shape
from aireprune.errors import AireError
from aireprune.families.base import Layer, Units, anchored, expect_shape, plain_lengths
from aireprune.families.cuts import AxisCut, Cut
from aireprune.method.states import LayerStates

PROJECTIONS = ("B_proj", "C_proj")
GROUP_KEYS = ("n_groups", "mamba_n_groups", "mamba_ngroups", "ngroups")
QUADRATURE = 64  # nodes


@dataclass(frozen=True, kw_only=True)
class Mamba2Options:
    first_row: int  # of B in in_proj
    first_channel: int  # of B in conv1d
    head_dim: int
    values: int  # of B, and of C, in each group; as many as states, unless the layer is projected


class Mamba2:
    name = "mamba2"
    looked_for = "A_log (1-D), in_proj.weight, conv1d.weight, dt_bias, out_proj.weight (Mamba-2 mixers)"
    stock = frozenset({"D", "norm.weight", "out_proj.weight", "out_proj.bias"})

    def find(
        self, arrays: NamedArrays, config: Mapping[str, Any], units: Units = Units()
    ) -> list[Layer[Mamba2Options]]:
        shapes = arrays.shapes
        return [
            self._layer(shapes, config, prefix)
            for prefix in anchored(
                shapes, ("A_log", "in_proj.weight"), ("A_log", "D"), ("dt_bias", "in_proj.weight", "conv1d.weight")
            )
            if len(shapes.get(prefix + "A_log", (0,))) == 1
        ]

    def _layer(self, shapes: Mapping[str, Shape], config: Mapping[str, Any], prefix: str) -> Layer[Mamba2Options]:
        where = prefix.rstrip(".") or "(top level)"
        why = f"the Mamba-2 layer {where} needs it"
        (heads,) = expect_shape(shapes, prefix + "A_log", (None,), why)
        expect_shape(shapes, prefix + "dt_bias", (heads,), why)
        rows, _ = expect_shape(shapes, prefix + "in_proj.weight", (None, None), why)
        channels, _, _ = expect_shape(shapes, prefix + "conv1d.weight", (None, 1, None), why)
        _, d = expect_shape(shapes, prefix + "out_proj.weight", (None, None), why)
        if prefix + "norm.weight" in shapes:  # with an MLP inside the mixer, out_proj sees its channels too
            (d,) = expect_shape(shapes, prefix + "norm.weight", (None,), why)
        groups, units, odd = _groups(config), (channels - d) // 2, (channels - d) % 2
        mlp = rows - heads - channels - d
        if units < 0 or odd or units % groups or heads % groups or d % heads or mlp < 0 or mlp % 2:
            raise AireError(
                f"The Mamba-2 layer {where} does not add up: conv1d has {channels} channels, in_proj {rows} rows, the "
                f"state space part {d} channels in {heads} heads, with {groups} groups (n_groups in the configuration, "
                "1 without one). Expected conv1d = x + 2 groups x states and in_proj = z + conv1d + heads."
            )
        roles = ["A_log", "dt_bias", "in_proj.weight", "conv1d.weight"]
        for role, size in (("in_proj.bias", rows), ("conv1d.bias", channels)):
            if prefix + role in shapes:
                expect_shape(shapes, prefix + role, (size,), why)
                roles.append(role)
        options = Mamba2Options(
            first_row=rows - heads - 2 * units, first_channel=d, head_dim=d // heads, values=units // groups
        )
        if any(prefix + role in shapes for role in PROJECTIONS):
            units = _projected_units(shapes, prefix, options.values, groups)
            roles += PROJECTIONS
        arrays = {role: prefix + role for role in roles}
        return Layer(self.name, prefix.rstrip("."), units, arrays, options, groups, carried=options.head_dim)

    def describe(self, layers: list[Layer[Mamba2Options]]) -> dict[str, Any]:
        return {}

    def states(self, layer: Layer[Mamba2Options], arrays: NamedArrays) -> LayerStates:
        n, groups = layer.states, layer.groups
        step = np.logaddexp(0, layer.read(arrays, "dt_bias"))
        log_radius = -step * np.exp(layer.read(arrays, "A_log"))  # (H,)
        per_unit = [np.repeat(per_head.reshape(groups, -1), n // groups, axis=0) for per_head in (log_radius, step)]
        b2, c2 = self._second_moments(layer, arrays)
        return LayerStates(
            layer.name,
            per_unit[0],
            np.zeros_like(per_unit[0]),
            layer.options.head_dim * b2[:, None] * per_unit[1] ** 2,
            np.broadcast_to(c2[:, None], per_unit[0].shape)[None],
            groups,
        )

    def _second_moments(self, layer: Layer[Mamba2Options], arrays: NamedArrays) -> list[np.ndarray]:
        """E[B^2] and E[C^2] of all states, (n,) each."""
        mean, square = self._values(layer, arrays)
        if not is_projected(layer):
            return list(square)
        found = []
        for role, means, squares in zip(PROJECTIONS, mean, square, strict=True):
            rows = layer.read(arrays, role).reshape(layer.groups, -1, layer.options.values)
            m, v = (x.reshape(layer.groups, -1, 1) for x in (means, squares - means**2))
            found.append((rows**2 @ v + (rows @ m) ** 2).ravel())
        return found

    def _values(self, layer: Layer[Mamba2Options], arrays: NamedArrays) -> tuple[np.ndarray, np.ndarray]:
        """E[silu(s)] and E[silu(s)^2] of the values of B and C, (2, G N) each."""
        count = 2 * layer.groups * layer.options.values
        rows = slice(layer.options.first_row, layer.options.first_row + count)
        channels = slice(layer.options.first_channel, None)
        taps = layer.read(arrays, "conv1d.weight")[channels, 0]
        std = np.sqrt((taps**2).sum(axis=1) * (layer.read(arrays, "in_proj.weight")[rows] ** 2).sum(axis=1))
        mean = np.zeros(count)
        if "in_proj.bias" in layer.arrays:
            mean = mean + layer.read(arrays, "in_proj.bias")[rows] * taps.sum(axis=1)
        if "conv1d.bias" in layer.arrays:
            mean = mean + layer.read(arrays, "conv1d.bias")[channels]
        nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE)
        s = mean[:, None] + std[:, None] * nodes
        silu, share = s * np.exp(-np.logaddexp(0, -s)), weights / weights.sum()
        return (silu @ share).reshape(2, -1), (silu**2 @ share).reshape(2, -1)

    def stored(self, layer: Layer[Mamba2Options], kept: np.ndarray) -> int:
        """At least one: stock Mamba-2 code cannot run without states, so an emptied layer keeps a silent one."""
        return max(len(kept) // layer.groups, 1)

    def cuts(self, layer: Layer[Mamba2Options]) -> dict[str, Cut]:
        one = np.arange(layer.states)[:, None]
        both = np.concatenate([one, one + layer.states], axis=1)  # where a unit's B and its C are
        cuts: dict[str, Cut] = {}
        for role, name in layer.arrays.items():
            if role in PROJECTIONS:
                cuts[name] = AxisCut(0, one, silent=True, groups=layer.groups)
            elif is_projected(layer):
                continue
            elif role.startswith("in_proj"):
                cuts[name] = AxisCut(0, layer.options.first_row + both, silent=True, groups=layer.groups)
            elif role.startswith("conv1d"):
                cuts[name] = AxisCut(0, layer.options.first_channel + both, silent=True, groups=layer.groups)
        return {**cuts, **layer.declared}

    def axis_lengths(self, layer: Layer[Mamba2Options]) -> dict[int, np.ndarray | None]:
        """Groups choose their states separately, so a tensor along the states of one group cannot be cut."""
        of_one = dict.fromkeys(plain_lengths(layer.states // layer.groups))
        return of_one | plain_lengths(layer.states, layer.options.first_channel)


def is_projected(layer: Layer[Mamba2Options]) -> bool:
    """Whether the gates of a Mamba-2 layer's states are made from more values of B and C."""
    return PROJECTIONS[0] in layer.arrays


def _projected_units(shapes: Mapping[str, Shape], prefix: str, values: int, groups: int) -> int:
    """The states of a projected layer, whose two matrices have to be there and fit."""
    why = f"the projected Mamba-2 layer {prefix.rstrip('.') or '(top level)'} needs it, with {groups} groups"
    units, _ = expect_shape(shapes, prefix + PROJECTIONS[0], (None, values), why)
    expect_shape(shapes, prefix + PROJECTIONS[1], (units, values), why)
    if units % groups:
        raise AireError(f"Tensor {prefix}{PROJECTIONS[0]} has {units} rows, which are no {groups} equal groups.")
    return units


def _groups(config: Mapping[str, Any]) -> int:
    places = (config, config.get("ssm_cfg") or {}, config.get("text_config") or {})
    return next((int(place[key]) for place in places for key in GROUP_KEYS if place.get(key)), 1)
