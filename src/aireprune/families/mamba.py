"""Mamba-1: d_inner channels that share the gates of N states; also FalconMamba and Jamba, which normalise B and C, and Vim.

Layout (mamba_ssm, transformers and mambapy alike), D = d_inner, R = dt_rank:

    A_log (D, N)   x_proj.weight (R + 2N, D), rows [dt: R | B: N | C: N]   dt_proj.weight (D, R), dt_proj.bias (D,)

The removable unit is the state index j: all channels share B_t[j] and C_t[j], so it holds one mode per channel (m = D).

Vim (Vision Mamba) runs a second such scan over the reversed sequence and adds the two outputs. It has tensors of its
own (A_b_log, x_proj_b, dt_proj_b), so its states are 0..N-1 of the forward and N..2N-1 of the backward scan. Each scan
chooses its own, equally many, because the module remembers one number of states: they are two groups.

The data-free energy
    x_t is the input of the selective part (after convolution and SiLU). Channel d and state j obey, with a =
    exp(A_log),

        h_t = exp(-Delta_t a[d, j]) h_{t-1} + Delta_t B_t[j] x_t[d],     y_t[d] = sum_j C_t[j] h_t + D_d x_t[d]
        B_t[j] = W_B[j] . x_t,   C_t[j] = W_C[j] . x_t,   Delta_t = softplus(dt_proj.weight (W_dt x_t) + dt_bias)

    At rest (W_dt x_t = 0) the step is Delta_d = softplus(dt_bias_d), so log|lam| = -Delta_d a[d, j] exactly. Let x_t
    be white with unit variance. Then E[B_t[j]^2] = |W_B[j]|^2, and likewise for C. B_t[j] x_t[d] has, for a Gaussian
    x_t, the second moment |W_B[j]|^2 + 2 W_B[j, d]^2; the second term is twice one channel's share of the first
    (about 2/D of it) and is dropped, and with it the mean W_B[j, d] of that product and the correlation of C_t with
    the newest input, which are of the same order. What remains is uncorrelated over time, hence

        E[h_t^2] = Delta_d^2 |W_B[j]|^2 / (1 - lam^2),     E[(C_t[j] h_t)^2] = |W_C[j]|^2 E[h_t^2]

    which is [energy] with b^2 = Delta_d^2 |W_B[j]|^2 and c^2 = |W_C[j]|^2, summed over the channels d. A bias of x_proj
    adds its square to E[B^2] or E[C^2].

Norms over the state axis (FalconMamba: without weight; Jamba, and mambapy with inner_layernorms: with weight w)
    The gates become w_j B_j / sqrt(mean_k B_k^2 + eps), so E[B_j^2] is taken as w_j^2 |W_j|^2 / (mean_k |W_k|^2 +
    eps). A masked state has B_k = 0 but still counts in the mean over N. If N' states stay, let a^2 = N'/N and scale
    the kept rows of B and C by a: the mean of (a B)^2 over N' is the mean of the masked B^2 over N, so the norm
    divides by the same number, eps included, and hands out a B where the masked layer hands out B. The factor 1/a
    goes into the norm's weight. Without a weight, B and C each keep a factor a, so the state part of y keeps a^2: D
    becomes a^2 D, and out_proj.weight becomes out_proj.weight / a^2. Padding to S states is the same with a^2 = S/N,
    because padding states are zero and count in the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.arrays import NamedArrays, Shape
from aireprune.errors import AireError
from aireprune.families.base import Layer, Units, anchored, expect_shape, plain_lengths
from aireprune.families.cuts import AxisCut, Cut, Rescaled
from aireprune.families.group_cut import GroupCut
from aireprune.method.states import LayerStates

NORM_NAMES = (("b_layernorm.weight", "c_layernorm.weight"), ("B_layernorm.weight", "C_layernorm.weight"))
FORWARD = {role: role for role in ("A_log", "x_proj.weight", "x_proj.bias", "dt_proj.weight", "dt_proj.bias")}
BACKWARD = {  # what Vim calls those of its second scan
    "A_log": "A_b_log",
    "x_proj.weight": "x_proj_b.weight",
    "x_proj.bias": "x_proj_b.bias",
    "dt_proj.weight": "dt_proj_b.weight",
    "dt_proj.bias": "dt_proj_b.bias",
}
CUT_PER_SCAN = ("A_log", "x_proj.weight", "x_proj.bias")
STOCK_MODULES = ("in_proj", "conv1d", "conv1d_b", "out_proj", "dt_layernorm")


@dataclass(frozen=True, kw_only=True)
class MambaOptions:
    dt_rank: int
    bc_norm: str  # of B and C over the state axis: none, weighted or weightless
    norm_eps: float


class Mamba:
    name = "mamba"
    looked_for = "A_log (2-D), x_proj.weight, dt_proj.weight, dt_proj.bias (Mamba, FalconMamba, Jamba, Vim)"
    stock = frozenset(
        {"D", "D_b", "gamma", "dt_proj.weight", "dt_proj_b.weight"}
        | {f"{module}.{leaf}" for module in STOCK_MODULES for leaf in ("weight", "bias")}
    )

    def find(self, arrays: NamedArrays, config: Mapping[str, Any], units: Units = Units()) -> list[Layer[MambaOptions]]:
        shapes = arrays.shapes
        return [
            self._layer(shapes, config, prefix)
            for prefix in anchored(
                shapes, ("A_log", "x_proj.weight"), ("A_log", "dt_proj.weight"), ("x_proj.weight", "dt_proj.weight")
            )
            if len(shapes.get(prefix + "A_log", (0, 0))) == 2
        ]

    def _layer(self, shapes: Mapping[str, Shape], config: Mapping[str, Any], prefix: str) -> Layer[MambaOptions]:
        why = f"the Mamba layer {prefix.rstrip('.') or '(top level)'} needs it"
        both = all(prefix + BACKWARD[role] in shapes for role in ("A_log", "x_proj.weight"))
        scans = [FORWARD, BACKWARD] if both else [FORWARD]
        sizes = [_scan_sizes(shapes, prefix, scan, why) for scan in scans]
        bc_norm, norm_roles = _norms(shapes, config, prefix)
        if both:
            _check_directions(prefix, sizes, bc_norm)
        d, n, rank = sizes[0]
        expected = {"b_norm": (n,), "c_norm": (n,), "D": (d,), "out_proj.weight": (None, d)}
        for role, leaf in norm_roles.items():
            expect_shape(shapes, prefix + leaf, expected[role], why)
        scored = [leaf for scan in scans for role, leaf in scan.items() if role != "dt_proj.weight"]
        roles = {leaf: leaf for leaf in scored if prefix + leaf in shapes} | norm_roles
        eps = config.get("mixer_rms_eps", config.get("rms_norm_eps", 1e-6))
        options = MambaOptions(dt_rank=rank, bc_norm=bc_norm, norm_eps=float(eps))
        arrays = {role: prefix + leaf for role, leaf in roles.items()}
        return Layer(self.name, prefix.rstrip("."), n * len(scans), arrays, options, groups=len(scans), carried=1)

    def describe(self, layers: list[Layer[MambaOptions]]) -> dict[str, Any]:
        return {}

    def states(self, layer: Layer[MambaOptions], arrays: NamedArrays) -> LayerStates:
        scans = [self._scan_states(layer, arrays, scan) for scan in (FORWARD, BACKWARD)[: layer.groups]]
        log_radius, b2, c2 = (np.concatenate(parts) for parts in zip(*scans, strict=True))
        return LayerStates(layer.name, log_radius, np.broadcast_to(0.0, log_radius.shape), b2, c2[None], layer.groups)

    def _scan_states(
        self, layer: Layer[MambaOptions], arrays: NamedArrays, scan: Mapping[str, str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log|lam|, b^2 and c^2 of the states of one scan, (N, D) each."""
        step = np.logaddexp(0, layer.read(arrays, scan["dt_proj.bias"]))  # Delta at rest, (D,)
        with np.errstate(over="ignore"):  # exp(A_log) beyond range is a state that forgets at once
            log_radius = -(step[:, None] * np.exp(layer.read(arrays, scan["A_log"]))).T
        second_moment = (layer.read(arrays, scan["x_proj.weight"]) ** 2).sum(axis=1)
        if scan["x_proj.bias"] in layer.arrays:
            second_moment = second_moment + layer.read(arrays, scan["x_proj.bias"]) ** 2
        b_moment, c_moment = np.split(second_moment[layer.options.dt_rank :], 2)
        b2 = self._normed(layer, arrays, "b_norm", b_moment)
        c2 = self._normed(layer, arrays, "c_norm", c_moment)
        return log_radius, b2[:, None] * step**2, np.broadcast_to(c2[:, None], log_radius.shape)

    def _normed(self, layer: Layer[MambaOptions], arrays: NamedArrays, role: str, moment: np.ndarray) -> np.ndarray:
        """E[B_j^2] (or C) behind the norm over the state axis, if there is one."""
        if layer.options.bc_norm == "none" or not len(moment):
            return moment
        weight = layer.read(arrays, role) if role in layer.arrays else np.ones(len(moment))
        return np.asarray(weight**2 * moment / (moment.mean() + layer.options.norm_eps))

    def stored(self, layer: Layer[MambaOptions], kept: np.ndarray) -> int:
        return len(kept) // layer.groups

    def cuts(self, layer: Layer[MambaOptions]) -> dict[str, Cut]:
        n, rank = layer.states // layer.groups, layer.options.dt_rank
        one = np.arange(n)[:, None]
        rows: Cut = AxisCut(0, rank + np.concatenate([one, one + n], axis=1), silent=True)
        weights: Cut = AxisCut(0, one, silent=True)
        if layer.options.bc_norm != "none":
            rows, weights = Rescaled(n, 1, rows, start=rank), Rescaled(n, -1, weights)
        by_role: dict[str, Cut] = {
            "A_log": AxisCut(1, one),
            "x_proj.weight": rows,
            "x_proj.bias": rows,
            "b_norm": weights,
            "c_norm": weights,
            "D": Rescaled(n, 2),
            "out_proj.weight": Rescaled(n, -2),
        }
        if layer.groups > 1:
            scans = ((0, FORWARD), (n, BACKWARD))
            by_role = {scan[role]: GroupCut(by_role[role], first, n) for first, scan in scans for role in CUT_PER_SCAN}
        cuts = {name: by_role[role] for role, name in layer.arrays.items() if role in by_role}
        return {**cuts, **layer.declared}

    def axis_lengths(self, layer: Layer[MambaOptions]) -> dict[int, np.ndarray | None]:
        """A further tensor does not say which direction's states it holds, nor on which side of a norm it acts."""
        found = plain_lengths(layer.states // layer.groups, layer.options.dt_rank)
        plain = layer.groups == 1 and layer.options.bc_norm == "none"
        return found if plain else dict.fromkeys(found)


def _scan_sizes(shapes: Mapping[str, Shape], prefix: str, leaves: Mapping[str, str], why: str) -> tuple[int, int, int]:
    """D, N and R of one scan, whose tensors all have to be there and fit."""
    names = {role: prefix + leaf for role, leaf in leaves.items()}
    d, n = expect_shape(shapes, names["A_log"], (None, None), why)
    _, rank = expect_shape(shapes, names["dt_proj.weight"], (d, None), why)
    expect_shape(shapes, names["dt_proj.bias"], (d,), why)
    rows = f"{why}, with rows [dt: {rank} | B: {n} | C: {n}]"
    expect_shape(shapes, names["x_proj.weight"], (rank + 2 * n, d), rows)
    if names["x_proj.bias"] in shapes:
        expect_shape(shapes, names["x_proj.bias"], (rank + 2 * n,), why)
    return d, n, rank


def _check_directions(prefix: str, sizes: Sequence[tuple[int, int, int]], bc_norm: str) -> None:
    """Raise unless two directions are a layout that is known."""
    where = f"Layer {prefix.rstrip('.') or '(top level)'} has two directions ({prefix}A_log, {prefix}A_b_log)"
    if sizes[0] != sizes[1]:
        raise AireError(
            f"{where} of different sizes: {sizes[0]} and {sizes[1]} channels, states and rank; expected one."
        )
    if bc_norm != "none":
        raise AireError(f"{where} and norms of B and C. That layout is not known, so it cannot be cut.")


def _norms(shapes: Mapping[str, Shape], config: Mapping[str, Any], prefix: str) -> tuple[str, dict[str, str]]:
    """Which norm of B and C there is, and role -> name of the tensors that a cut then changes."""
    for pair in NORM_NAMES:
        if any(prefix + leaf in shapes for leaf in pair):
            return "weighted", dict(zip(("b_norm", "c_norm"), pair, strict=True))
    if _weightless_norms(config):
        return "weightless", {"D": "D", "out_proj.weight": "out_proj.weight"}
    return "none", {}


def _weightless_norms(config: Mapping[str, Any]) -> bool:
    """Norms without weights leave no trace among the arrays; only the configuration tells."""
    falcon = config.get("model_type") == "falcon_mamba" or any(
        str(name).startswith("FalconMamba") for name in config.get("architectures") or ()
    )
    return falcon or bool(config.get("inner_layernorms"))
