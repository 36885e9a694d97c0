"""Mamba-1, FalconMamba and Jamba over named arrays: scores by independent loops and simulation, cuts, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Arrays, Shapes

from aireprune.errors import AireError
from aireprune.families import find_layers
from aireprune.families.mamba import Mamba
from aireprune.method.criteria import CRITERIA, Conditions

FAMILY = Mamba()
D, N, R = 5, 4, 2


def layer_arrays(prefix: str = "layers.0.mixer.", bias: bool = False, norms: bool = False, n: int = N) -> Arrays:
    rng = np.random.default_rng(0)
    arrays = Arrays()
    arrays[prefix + "A_log"] = rng.normal(size=(D, n))
    arrays[prefix + "x_proj.weight"] = rng.normal(size=(R + 2 * n, D))
    arrays[prefix + "dt_proj.weight"] = rng.normal(size=(D, R))
    arrays[prefix + "dt_proj.bias"] = rng.normal(size=D) - 1
    arrays[prefix + "D"] = rng.normal(size=D)
    arrays[prefix + "out_proj.weight"] = rng.normal(size=(3, D))
    if bias:
        arrays[prefix + "x_proj.bias"] = rng.normal(size=R + 2 * n)
    if norms:
        arrays[prefix + "b_layernorm.weight"] = rng.normal(size=n)
        arrays[prefix + "c_layernorm.weight"] = rng.normal(size=n)
    return arrays


def energies(arrays: Arrays, config: dict[str, object] | None = None) -> np.ndarray:
    (layer,) = FAMILY.find(arrays, config or {})
    return CRITERIA["energy"](FAMILY.states(layer, arrays), Conditions(None, 0, 0))


@pytest.mark.parametrize("bias", [False, True])
def test_energy_is_the_formula(bias: bool) -> None:
    arrays = layer_arrays("", bias=bias)
    expected = np.zeros(N)
    for j in range(N):
        row_b, row_c = arrays["x_proj.weight"][R + j], arrays["x_proj.weight"][R + N + j]
        b2, c2 = (row_b**2).sum(), (row_c**2).sum()
        if bias:
            b2, c2 = b2 + arrays["x_proj.bias"][R + j] ** 2, c2 + arrays["x_proj.bias"][R + N + j] ** 2
        for d in range(D):
            step = np.log1p(np.exp(arrays["dt_proj.bias"][d]))
            lam = np.exp(-step * np.exp(arrays["A_log"][d, j]))
            expected[j] += step**2 * b2 * c2 / (1 - lam**2)
    np.testing.assert_allclose(energies(arrays), expected, rtol=1e-12)


def test_energy_is_what_white_noise_gives() -> None:
    """Resting gates drawn independently of the input they multiply: the simulated output power of each state."""
    arrays, rng, steps = layer_arrays(""), np.random.default_rng(1), 200_000
    weight, step = arrays["x_proj.weight"], np.logaddexp(0, arrays["dt_proj.bias"])
    b, c = (rng.normal(size=(steps, D)) @ weight[rows].T for rows in (slice(R, R + N), slice(R + N, None)))
    x = rng.normal(size=(steps, D))
    from scipy.signal import lfilter

    power = np.zeros(N)
    for j in range(N):
        for d in range(D):
            lam = np.exp(-step[d] * np.exp(arrays["A_log"][d, j]))
            h = lfilter([1.0], [1.0, -lam], step[d] * b[:, j] * x[:, d])
            power[j] += np.mean((c[:, j] * h) ** 2)
    np.testing.assert_allclose(power, energies(arrays), rtol=0.1)


def test_norms_divide_by_the_mean() -> None:
    plain, normed = layer_arrays(""), layer_arrays("", norms=True)
    moments = (plain["x_proj.weight"][R:] ** 2).sum(1).reshape(2, N)
    weights = np.stack([normed["b_layernorm.weight"], normed["c_layernorm.weight"]]) ** 2
    factor = (weights / moments.mean(1, keepdims=True)).prod(0)
    np.testing.assert_allclose(energies(normed, {"rms_norm_eps": 0.0}), energies(plain) * factor, rtol=1e-12)
    flat = energies(plain, {"model_type": "falcon_mamba", "mixer_rms_eps": 0.0})
    np.testing.assert_allclose(flat, energies(plain) / moments.mean(1).prod(), rtol=1e-12)


@pytest.mark.parametrize(
    ("config", "norms", "expected"),
    [
        ({}, False, "none"),
        ({"model_type": "falcon_mamba"}, False, "weightless"),
        ({"architectures": ["FalconMambaForCausalLM"]}, False, "weightless"),
        ({"inner_layernorms": True}, False, "weightless"),
        ({"model_type": "jamba"}, True, "weighted"),
    ],
)
def test_the_norm_is_explicit(config: dict[str, object], norms: bool, expected: str) -> None:
    (layer,) = FAMILY.find(layer_arrays(norms=norms), config)
    assert layer.options.bc_norm == expected
    assert ("out_proj.weight" in layer.arrays) == (expected == "weightless")


def selective(arrays: Arrays, x: np.ndarray, norm: bool) -> np.ndarray:
    """The layer step by step: x (L, D) -> what out_proj puts out."""
    n = arrays["A_log"].shape[1]
    h, out = np.zeros((D, n)), []
    for x_t in x:
        rows = arrays["x_proj.weight"] @ x_t
        step = np.logaddexp(0, arrays["dt_proj.weight"] @ rows[:R] + arrays["dt_proj.bias"])[:, None]
        gates = [rows[R : R + n], rows[R + n :]]
        if norm:
            gates = [g / np.sqrt((g**2).mean() + 1e-3) for g in gates]
            for i, name in enumerate(("b_layernorm.weight", "c_layernorm.weight")):
                gates[i] = gates[i] * arrays.get(name, np.ones(n))
        h = np.exp(-step * np.exp(arrays["A_log"])) * h + step * gates[0] * x_t[:, None]
        out.append(arrays["out_proj.weight"] @ (h @ gates[1] + arrays["D"] * x_t))
    return np.array(out)


@pytest.mark.parametrize("kind", ["none", "weighted", "weightless"])
@pytest.mark.parametrize("kept", [[0, 2], [1], [0, 1, 2, 3]])
def test_masked_is_removed_is_padded(kind: str, kept: list[int]) -> None:
    arrays = layer_arrays("", norms=kind == "weighted")
    (layer,) = FAMILY.find(arrays, {"model_type": "falcon_mamba"} if kind == "weightless" else {})
    cuts = FAMILY.cuts(layer)
    keep, x = np.array(kept), np.random.default_rng(2).normal(size=(9, D))

    def run(edit: str, **options: int) -> np.ndarray:
        edited = {k: getattr(cuts[k], edit)(v, keep, **options) if k in cuts else v for k, v in arrays.items()}
        return selective(Arrays(edited), x, kind != "none")

    masked = run("mask")
    np.testing.assert_allclose(run("remove"), masked, rtol=1e-9)
    for size in (len(kept), 4):
        np.testing.assert_allclose(run("remove", size=size), masked, rtol=1e-9)


def test_an_emptied_layer_keeps_its_skip() -> None:
    arrays = layer_arrays("")
    (layer,) = FAMILY.find(arrays, {"model_type": "falcon_mamba"})
    for name, cut in FAMILY.cuts(layer).items():
        arrays[name] = cut.remove(arrays[name], np.array([], int))
    assert arrays["A_log"].shape == (D, 0)
    assert np.isfinite(arrays["out_proj.weight"]).all()
    (empty,) = FAMILY.find(arrays, {})
    assert len(FAMILY.states(empty, arrays)) == 0


def test_dead_layer_and_one_state() -> None:
    arrays = layer_arrays("", n=1)
    assert energies(arrays).shape == (1,)
    arrays["x_proj.weight"][:] = 0
    assert energies(arrays) == 0
    assert energies(arrays, {"model_type": "falcon_mamba"}) == 0


def test_bad_input_is_named() -> None:
    arrays = layer_arrays()
    for name, message in (
        ("layers.0.mixer.x_proj.weight", "x_proj.weight is missing"),
        ("layers.0.mixer.dt_proj.bias", "dt_proj.bias is missing"),
    ):
        with pytest.raises(AireError, match=message):
            FAMILY.find(Shapes({k: v for k, v in arrays.shapes.items() if k != name}), {})
    with pytest.raises(AireError, match=r"x_proj.weight has shape \(11, 5\), expected \(10, 5\).*dt: 2 . B: 4 . C: 4"):
        FAMILY.find(Shapes({**arrays.shapes, "layers.0.mixer.x_proj.weight": (11, 5)}), {})
    arrays["layers.0.mixer.A_log"][0, 0] = np.nan
    with pytest.raises(AireError, match=r"A_log holds values that are not finite"):
        FAMILY.states(FAMILY.find(arrays, {})[0], arrays)


def test_layers_under_any_prefix_in_order() -> None:
    arrays = Arrays({**layer_arrays("m.layers.10."), **layer_arrays("m.layers.2."), "attention.q": np.zeros((2, 2))})
    assert [layer.name for layer in find_layers(arrays, {})] == ["m.layers.2", "m.layers.10"]
