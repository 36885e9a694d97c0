"""Mamba-2 over named arrays: layouts, groups, scores by sampling, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Arrays, Shapes

from aireprune.errors import AireError
from aireprune.families.mamba2 import Mamba2, Mamba2Options
from aireprune.method.criteria import CRITERIA, Conditions

FAMILY = Mamba2()
HEADS, P, N, K, MODEL = 4, 3, 5, 4, 6


def layer_arrays(groups: int = 2, bias: bool = True, norm: bool = True, d_mlp: int = 0) -> Arrays:
    rng, d = np.random.default_rng(0), HEADS * P
    channels = d + 2 * groups * N
    arrays = Arrays()
    arrays["A_log"], arrays["dt_bias"], arrays["D"] = rng.normal(size=(3, HEADS))
    arrays["in_proj.weight"] = rng.normal(size=(2 * d_mlp + d + channels + HEADS, MODEL))
    arrays["conv1d.weight"] = rng.normal(size=(channels, 1, K))
    arrays["out_proj.weight"] = rng.normal(size=(MODEL, d + d_mlp))
    if bias:
        arrays["conv1d.bias"] = rng.normal(size=channels)
        arrays["in_proj.bias"] = rng.normal(size=len(arrays["in_proj.weight"]))
    if norm:
        arrays["norm.weight"] = rng.normal(size=d)
    return arrays


def test_layout() -> None:
    for d_mlp in (0, 7):
        (layer,) = FAMILY.find(layer_arrays(d_mlp=d_mlp), {"n_groups": 2})
        assert (layer.states, layer.groups) == (2 * N, 2)
        first_row = 2 * d_mlp + 2 * HEADS * P
        assert layer.options == Mamba2Options(first_row=first_row, first_channel=HEADS * P, head_dim=P, values=N)
    (layer,) = FAMILY.find(layer_arrays(groups=1, bias=False, norm=False), {})
    assert (layer.states, layer.groups) == (N, 1)
    assert set(layer.arrays) == {"A_log", "dt_bias", "in_proj.weight", "conv1d.weight"}


@pytest.mark.parametrize("config", [{"mamba_n_groups": 2}, {"mamba_ngroups": 2}, {"ssm_cfg": {"ngroups": 2}}])
def test_groups_by_any_name(config: dict[str, object]) -> None:
    assert FAMILY.find(layer_arrays(), config)[0].groups == 2


def test_energy_by_sampling() -> None:
    arrays, groups = layer_arrays(), 2
    (layer,) = FAMILY.find(arrays, {"n_groups": groups})
    states = FAMILY.states(layer, arrays)
    assert states.log_radius.shape == (groups * N, HEADS // groups)
    rng, first = np.random.default_rng(1), HEADS * P
    u = rng.normal(size=(100_000, K, MODEL))
    rows = slice(2 * first, 2 * first + 2 * groups * N)
    projected = u @ arrays["in_proj.weight"][rows].T + arrays["in_proj.bias"][rows]
    s = (projected * arrays["conv1d.weight"][first:, 0].T).sum(1) + arrays["conv1d.bias"][first:]
    moments = ((s / (1 + np.exp(-s))) ** 2).mean(0).reshape(2, groups, N)
    step = np.logaddexp(0, arrays["dt_bias"])
    per_head = P * step**2 / (1 - np.exp(-2 * step * np.exp(arrays["A_log"])))
    expected = moments.prod(0) * per_head.reshape(groups, -1).sum(1, keepdims=True)
    energy = CRITERIA["energy"](states, Conditions(None, 0, 0))
    np.testing.assert_allclose(energy, expected.ravel(), rtol=0.05)


@pytest.mark.parametrize("size", [None, 3, 4])
def test_cuts_keep_groups_apart(size: int | None) -> None:
    arrays, kept = layer_arrays(), np.array([0, 3, 5 + 1, 5 + 4])
    (layer,) = FAMILY.find(arrays, {"n_groups": 2})
    cuts = FAMILY.cuts(layer)
    conv = cuts["conv1d.bias"].remove(arrays["conv1d.bias"], kept, size)
    d, width = HEADS * P, size or 2
    expected = np.zeros(d + 4 * width)
    expected[:d] = arrays["conv1d.bias"][:d]
    for part in range(2):
        for g in range(2):
            start = d + (2 * part + g) * width
            expected[start : start + 2] = arrays["conv1d.bias"][d + part * 2 * N + kept[2 * g : 2 * g + 2]]
    np.testing.assert_array_equal(conv, expected)
    rows = cuts["in_proj.weight"].remove(arrays["in_proj.weight"], kept, size)
    np.testing.assert_array_equal(rows[-HEADS:], arrays["in_proj.weight"][-HEADS:])
    smaller = Arrays({k: cuts[k].remove(v, kept, size) if k in cuts else v for k, v in arrays.items()})
    assert FAMILY.find(smaller, {"n_groups": 2})[0].states == 2 * width


def test_bad_input_is_named() -> None:
    shapes = layer_arrays().shapes
    with pytest.raises(AireError, match=r"conv1d\.weight is missing"):
        FAMILY.find(Shapes({k: v for k, v in shapes.items() if k != "conv1d.weight"}), {})
    with pytest.raises(AireError, match=r"does not add up.*with 3 groups"):
        FAMILY.find(Shapes(shapes), {"n_groups": 3})
    with pytest.raises(AireError, match="does not add up"):
        FAMILY.find(Shapes({**shapes, "in_proj.weight": (shapes["in_proj.weight"][0] - 1, MODEL)}), {"n_groups": 2})


def test_other_layers_with_a_log_are_left_alone() -> None:
    assert (
        FAMILY.find(
            Shapes({"A_log": (4,), "dt_bias": (4,), "in_proj_qkvz.weight": (9, 3), "conv1d.weight": (8, 1, 4)}), {}
        )
        == []
    )


def test_projected_layers_by_sampling() -> None:
    """Units are the rows of the projections, and E[B^2] is that of the projected values, drawn independently."""
    arrays, groups, rng = layer_arrays(), 2, np.random.default_rng(2)
    plain = FAMILY.find(arrays, {"n_groups": groups})[0]
    for name in ("B_proj", "C_proj"):
        arrays[name] = rng.normal(size=(groups * 3, N))
    (layer,) = FAMILY.find(arrays, {"n_groups": groups})
    assert (layer.states, layer.options.values) == (groups * 3, N)
    assert {name: cut.remove(arrays[name], np.array([0, 4])).shape for name, cut in FAMILY.cuts(layer).items()} == {
        "B_proj": (2, N),
        "C_proj": (2, N),
    }
    draws = rng.normal(size=(200_000, K, MODEL))
    rows, first = slice(2 * HEADS * P, 2 * HEADS * P + 2 * groups * N), HEADS * P
    values = []
    for row, bias, taps, shift in zip(
        arrays["in_proj.weight"][rows],
        arrays["in_proj.bias"][rows],
        arrays["conv1d.weight"][first:, 0],
        arrays["conv1d.bias"][first:],
        strict=True,
    ):
        s = rng.permutation(((draws @ row + bias) * taps).sum(1)) + shift  # shuffled: independent of the other values
        values.append(s / (1 + np.exp(-s)))
    b, c = np.array(values).reshape(2, groups, N, -1)
    made = [np.einsum("gkn,gnt->gkt", arrays[f"{x}_proj"].reshape(groups, 3, N), y) for x, y in (("B", b), ("C", c))]
    expected = [np.square(one).mean(-1).ravel() for one in made]
    found, before = FAMILY.states(layer, arrays), FAMILY.states(plain, arrays)
    np.testing.assert_allclose(found.c2[0, :, 0], expected[1], rtol=0.03)
    per_head = found.b2[:, 0] / expected[0]
    step = (before.b2 / np.square(b).mean(-1).ravel()[:, None]).reshape(groups, N, -1)[:, 0, 0]
    np.testing.assert_allclose(per_head.reshape(groups, 3), np.repeat(step[:, None], 3, 1), rtol=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"B_proj": (6, N)}, "C_proj is missing"),
        ({"B_proj": (6, N + 1), "C_proj": (6, N)}, "B_proj has shape"),
        ({"B_proj": (6, N), "C_proj": (4, N)}, "C_proj has shape"),
        ({"B_proj": (5, N), "C_proj": (5, N)}, "5 rows, which are no 2 equal groups"),
    ],
)
def test_projections_that_do_not_fit(changes: dict[str, tuple[int, int]], message: str) -> None:
    arrays = layer_arrays()
    for name, shape in changes.items():
        arrays[name] = np.ones(shape)
    with pytest.raises(AireError, match=message):
        FAMILY.find(arrays, {"n_groups": 2})
