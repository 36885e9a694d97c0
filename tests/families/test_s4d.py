"""S4D and S4 as families: scores from impulse responses, masked = removed = padded, S4 = its diagonal form."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays
from safetensors.numpy import load_file, save_file

import aireprune
from aireprune.errors import AireError
from aireprune.families import Units, find_layers
from aireprune.families.s4 import diagonalize
from aireprune.families.s4d import S4D, TRANSFORMS
from aireprune.method.criteria import Conditions, energy
from aireprune.models.s4d import S4DConfig, S4DLayer

FAMILY = S4D()


def standalone(rng: np.random.Generator, h: int = 5, n: int = 4) -> Arrays:
    return Arrays(
        {
            "k.kernel.C": rng.standard_normal((h, n, 2)),
            "k.kernel.log_dt": rng.uniform(-3, -1, h),
            "k.kernel.log_A_real": rng.uniform(-1, 1, (h, n)),
            "k.kernel.A_imag": 3 * rng.standard_normal((h, n)),
        }
    )


def repository(
    rng: np.random.Generator, h: int = 6, s: int = 6, n: int = 4, o: int = 1, untied: bool = False
) -> Arrays:
    return Arrays(
        {
            "k.inv_dt": rng.uniform(-3, -1, (h, n if untied else 1)),
            "k.A_real": rng.uniform(-1, 1, (s, n)),
            "k.A_imag": rng.uniform(0, 5, (s, n)),
            "k.B": rng.standard_normal((1, s, n, 2)),
            "k.C": rng.standard_normal((o, h, n, 2)),
        }
    )


def repository_kernel(
    arrays: Mapping[str, np.ndarray], length: int, config: Mapping[str, Any] | None = None
) -> np.ndarray:
    """(o, H, L) straight from the S4 repository's definition, with nothing of ours."""
    config = config or {}
    dt = TRANSFORMS[config.get("dt_transform", "exp")][0](arrays["k.inv_dt"])
    h, s = len(dt), len(arrays["k.A_real"])
    real = TRANSFORMS[config.get("real_transform", "exp")][0](arrays["k.A_real"])
    a = np.tile(-real - 1j * arrays["k.A_imag"], (h // s, 1))
    b = np.tile((arrays["k.B"] @ [1, 1j])[0], (h // s, 1))
    c = arrays["k.C"] @ [1, 1j]
    if config.get("disc", "zoh") == "zoh":
        lam, b = np.exp(dt * a), b * (np.exp(dt * a) - 1) / a
    else:
        lam, b = (1 + dt * a / 2) / (1 - dt * a / 2), b * dt / (1 - dt * a / 2)
    return 2 * np.einsum("ohn,hn,hnl->ohl", c, b, lam[..., None] ** np.arange(length)).real


def edited(arrays: Arrays, layer: Any, kept: np.ndarray, how: str) -> Arrays:
    size = S4D().stored(layer, kept) + 2 if how == "padded" else None
    out = Arrays(arrays)
    for name, cut in FAMILY.cuts(layer).items():
        out[name] = cut.mask(arrays[name], kept) if how == "masked" else cut.remove(arrays[name], kept, size)
    return out


@pytest.mark.parametrize("granularity", ["mode", "state"])
def test_energy_is_that_of_the_modules_impulse_response(granularity: str) -> None:
    """One state at a time, y = 2 Re(h) and, with C turned by i, y = -2 Im(h): sum |h|^2 is a quarter of both."""
    rng = np.random.default_rng(1)
    arrays = standalone(rng, 3, 4)
    (layer,) = FAMILY.find(arrays, {}, Units(granularity=granularity))
    module = S4DLayer(S4DConfig(1, 1, 3, 8, 1), 4).double()
    impulse = torch.eye(3, dtype=torch.float64)[:, None] * (torch.arange(800) == 0)[None, :, None]
    found = []
    for state in range(layer.states):
        alone = edited(arrays, layer, np.array([state]), "masked")
        total = 0.0
        for turn in (1, 1j):
            c = (alone["k.kernel.C"] @ [1, 1j]) * turn
            tensors = {name.removeprefix("k.kernel."): torch.tensor(values) for name, values in alone.items()}
            module.kernel.load_state_dict({**tensors, "C": torch.tensor(np.stack([c.real, c.imag], -1))})
            torch.nn.init.zeros_(module.D)
            with torch.no_grad():
                total += float((module.ssm(impulse) ** 2).sum()) / 4
        found.append(total)
    np.testing.assert_allclose(energy(FAMILY.states(layer, arrays), Conditions()), found, rtol=1e-8)


@pytest.mark.parametrize("granularity", ["mode", "state"])
@pytest.mark.parametrize("disc", ["zoh", "bilinear"])
def test_energy_with_shared_copies(granularity: str, disc: str) -> None:
    """A removable state holds one mode per channel that shares its copy of A and B, over all readouts."""
    arrays = repository(np.random.default_rng(2), h=6, s=2, n=3, o=2)
    (layer,) = FAMILY.find(arrays, {"disc": disc}, Units(granularity=granularity))
    assert layer.states == (6 if granularity == "mode" else 3)
    found = []
    for state in range(layer.states):
        alone = edited(arrays, layer, np.array([state]), "masked")
        turned = {**alone, "k.C": np.stack([-alone["k.C"][..., 1], alone["k.C"][..., 0]], -1)}
        found.append(sum((repository_kernel(part, 1500, {"disc": disc}) ** 2).sum() / 4 for part in (alone, turned)))
    np.testing.assert_allclose(energy(FAMILY.states(layer, arrays), Conditions()), found, rtol=1e-8)


def test_bidirectional_readouts_are_averaged() -> None:
    arrays = repository(np.random.default_rng(3), o=2)
    (layer,) = FAMILY.find(arrays, {"bidirectional": True})
    states = FAMILY.states(layer, arrays)
    assert states.c2.shape == (2, 24, 1)
    np.testing.assert_allclose(states.mean_c2[:, 0], ((arrays["k.C"] ** 2).sum((0, -1)) / 2).ravel())


@pytest.mark.parametrize("granularity", ["mode", "state"])
@pytest.mark.parametrize(
    ("h", "s", "untied", "real_transform"), [(6, 6, False, "exp"), (6, 2, True, "softplus"), (4, 1, False, "relu")]
)
def test_masked_is_removed_is_padded(granularity: str, h: int, s: int, untied: bool, real_transform: str) -> None:
    rng = np.random.default_rng(4)
    arrays = repository(rng, h=h, s=s, n=5, o=2, untied=untied)
    config, units = {"real_transform": real_transform}, Units(granularity=granularity)
    arrays["k.A_real"] = np.abs(arrays["k.A_real"])
    (layer,) = FAMILY.find(arrays, config, units)
    kept = np.sort(rng.choice(layer.states, layer.states // 2, replace=False))
    masked = repository_kernel(edited(arrays, layer, kept, "masked"), 200, config)
    assert not np.allclose(masked, repository_kernel(arrays, 200, config))
    for how in ("removed", "padded"):
        smaller = edited(arrays, layer, kept, how)
        np.testing.assert_allclose(repository_kernel(smaller, 200, config), masked, rtol=1e-10, atol=1e-12)
        width = S4D().stored(layer, kept) + 2 * (how == "padded")
        assert smaller["k.C"].shape == (2, h, width, 2)
        assert smaller["k.A_real"].shape == (s, width)
        assert smaller["k.inv_dt"].shape == (h, width if untied else 1)
        (again,) = FAMILY.find(smaller, config, units)
        assert FAMILY.states(again, smaller).margin > 0


def test_a_ragged_removal_keeps_each_channels_own_modes() -> None:
    arrays = standalone(np.random.default_rng(5), 3, 4)
    (layer,) = FAMILY.find(arrays, {})
    kept = np.array([1, 3, 4, 5, 6])  # channel 0: modes 1 and 3, channel 1: 0, 1 and 2, channel 2: none
    smaller = edited(arrays, layer, kept, "removed")
    c = smaller["k.kernel.C"]
    assert c.shape == (3, 3, 2)
    np.testing.assert_array_equal(c[0, :2], arrays["k.kernel.C"][0, [1, 3]])
    np.testing.assert_array_equal(c[1], arrays["k.kernel.C"][1, :3])
    assert not c[0, 2].any()
    assert not c[2].any()
    with pytest.raises(ValueError, match="keeps 3 modes"):
        FAMILY.cuts(layer)["k.kernel.C"].remove(arrays["k.kernel.C"], kept, 2)


def test_nothing_kept_and_nothing_there() -> None:
    arrays = standalone(np.random.default_rng(6), 3, 4)
    (layer,) = FAMILY.find(arrays, {})
    empty = edited(arrays, layer, np.array([], int), "removed")
    assert empty["k.kernel.C"].shape == (3, 0, 2)
    (layer,) = FAMILY.find(empty, {})
    assert len(FAMILY.states(layer, empty)) == 0
    assert edited(empty, layer, np.array([], int), "padded")["k.kernel.C"].shape == (3, 2, 2)


def test_bandlimit_real_kernels_and_fast_steps() -> None:
    arrays = repository(np.random.default_rng(7))
    (layer,) = FAMILY.find(arrays, {"bandlimit": 0.05, "dt_fast": True})
    dt = np.exp(np.sinh(arrays["k.inv_dt"]))
    silent = dt * arrays["k.A_imag"] / (2 * np.pi) >= 0.025
    states = FAMILY.states(layer, arrays)
    np.testing.assert_array_equal(states.c2[0, :, 0] == 0, silent.ravel())
    np.testing.assert_allclose(states.log_radius[:, 0], (-np.exp(arrays["k.A_real"]) * dt).ravel())
    real = Arrays({name: values[..., 0] if name in ("k.B", "k.C") else values for name, values in arrays.items()})
    del real["k.A_imag"]
    (layer,) = FAMILY.find(real, {})
    assert not FAMILY.states(layer, real).angle.any()


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        ({"k.B": np.zeros((1, 6, 5, 2))}, {}, "k.B has shape"),
        ({"k.C": np.zeros((1, 7, 4, 2)), "k.inv_dt": np.zeros((7, 1))}, {}, "do not divide"),
        ({}, {"disc": "dss"}, "disc is 'dss'"),
        ({}, {"bidirectional": True}, "even number"),
    ],
)
def test_bad_layers_are_named(change: dict[str, np.ndarray], config: dict[str, Any], message: str) -> None:
    arrays = Arrays({**repository(np.random.default_rng(8)), **change})
    with pytest.raises(AireError, match=message):
        FAMILY.find(arrays, config)


def s4_layer(
    rng: np.random.Generator, rank: int, l_kernel: int, real_poles: bool, h: int = 4, s: int = 2, n: int = 3
) -> Arrays:
    arrays = repository(rng, h, s, n)
    arrays["k.P"] = (3.0 if real_poles else 0.5) * rng.standard_normal((rank, s, n, 2))
    arrays["k.A_imag"] = 0.1 * arrays["k.A_imag"] if real_poles else arrays["k.A_imag"] + 2
    arrays["k.l_kernel"] = np.array(l_kernel)
    return arrays


def s4_kernel(arrays: Mapping[str, np.ndarray], length: int) -> np.ndarray:
    """The dense definition: A = diag(a) - P P* over both halves, bilinear, C = C~ (I - A^L)^{-1}."""
    both = lambda z: np.concatenate([z, z.conj()], -1)  # noqa: E731
    h, s = len(arrays["k.inv_dt"]), len(arrays["k.A_real"])
    a = both(-np.exp(arrays["k.A_real"]) - 1j * arrays["k.A_imag"])
    p, b, c = (both(arrays[f"k.{role}"] @ [1, 1j]) for role in "PBC")
    out = np.zeros((len(c), h, length))
    for channel in range(h):
        t, dt = channel % s, np.exp(arrays["k.inv_dt"][channel, 0])
        full = np.diag(a[t]) - sum(np.outer(row[t], row[t].conj()) for row in p)
        back = np.linalg.inv(np.eye(len(full)) - dt / 2 * full)
        lam, x = back @ (np.eye(len(full)) + dt / 2 * full), dt * back @ b[0, t]
        l_kernel = int(arrays["k.l_kernel"])
        decode = (
            np.linalg.inv(np.eye(len(full)) - np.linalg.matrix_power(lam, l_kernel)) if l_kernel else np.eye(len(full))
        )
        for step in range(length):
            out[:, channel, step] = (c[:, channel] @ decode @ x).real
            x = lam @ x
    return out


def modal_kernel(arrays: Any, length: int) -> np.ndarray:
    (layer,) = FAMILY.find(arrays, {})
    log_radius, angle, b, c = FAMILY.modes(layer, arrays)
    powers = np.exp((log_radius + 1j * angle)[..., None] * np.arange(length))
    return 2 * np.einsum("ohn,hn,hnl->ohl", c[0], b, powers).real


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("l_kernel", [0, 32])
@pytest.mark.parametrize("real_poles", [False, True])
def test_s4_is_its_diagonal_form(rank: int, l_kernel: int, real_poles: bool) -> None:
    arrays = s4_layer(np.random.default_rng(9), rank, l_kernel, real_poles)
    view = diagonalize(arrays, {})
    assert view is not None
    assert "low-rank" in view.notices[0]
    assert view.shapes["k.A_real"][1] > 3 if real_poles else view.shapes["k.A_real"] == (2, 3)
    reference = s4_kernel(arrays, 100)
    scale = np.abs(reference).max()
    np.testing.assert_allclose(modal_kernel(view, 100), reference, atol=2e-5 * scale)
    # the stock DPLR kernel reads the new arrays as they are: P = 0, the same l_kernel
    written = Arrays({name: view[name] for name in view.shapes})
    np.testing.assert_allclose(s4_kernel(written, 100), reference, atol=2e-5 * scale)
    assert diagonalize(written, {}) is None


def test_a_diagonalised_s4_is_pruned_like_s4d() -> None:
    arrays = s4_layer(np.random.default_rng(10), 1, 32, True)
    with pytest.raises(AireError, match="diagonalised"):
        FAMILY.states(FAMILY.find(arrays, {})[0], arrays)
    view = diagonalize(arrays, {})
    assert view is not None
    (layer,) = find_layers(view, {})
    kept = np.arange(0, layer.states, 2)
    results = {}
    for how in ("masked", "removed"):
        edits = {
            name: partial(cut.mask if how == "masked" else cut.remove, kept=kept)
            for name, cut in FAMILY.cuts(layer).items()
        }
        through = view.edits(edits)
        results[how] = s4_kernel({n: through[n](v) if n in through else v for n, v in arrays.items()}, 60)
    np.testing.assert_allclose(results["removed"], results["masked"], atol=1e-6 * np.abs(results["masked"]).max())


@pytest.mark.parametrize("l_kernel", [0, 32])
@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_reduced_s4_files_by_the_dense_definition(tmp_path: Path, reduce: str, l_kernel: int) -> None:
    """An S4 file is diagonalised, reduced and stored; the S4 repository's own formula gives the promised error."""
    arrays = s4_layer(np.random.default_rng(9), 1, l_kernel, False, h=3, s=3, n=4)
    stored = {name: values.astype(np.float32 if values.dtype.kind == "f" else int) for name, values in arrays.items()}
    save_file(stored, tmp_path / "s4.safetensors")
    applied = aireprune.prune_file(
        tmp_path / "s4.safetensors", tmp_path / "small.safetensors", ratio=0.5, reduce=reduce, layout="adaptive"
    )
    small = load_file(tmp_path / "small.safetensors")
    full, reduced = s4_kernel(arrays, 400), s4_kernel({name: v.astype(float) for name, v in small.items()}, 400)
    error = np.linalg.norm(full - reduced) / np.linalg.norm(full)
    assert applied.certificate is not None
    assert error == pytest.approx(applied.certificate[0]["relative_h2"], rel=0.05)
    assert error < {"truncate": 0.4, "refit": 0.3, "balanced": 0.05}[reduce]
    assert aireprune.certify(tmp_path / "small.safetensors").violations == []


def test_hippo_has_no_usable_eigenbasis() -> None:
    """HiPPO-LegS is what S4 starts from; its eigenvectors are useless in floating point, and that is said."""
    from aireprune.models.s5 import hippo_normal

    n = 64
    lam, v = hippo_normal(n)
    half = slice(n // 2)
    p = (v.conj().T @ np.sqrt(np.arange(n) + 0.5))[half]
    b = (v.conj().T @ np.sqrt(2 * np.arange(n) + 1.0))[half]
    pair = lambda z: np.stack([z.real, z.imag], -1)[None, None]  # noqa: E731
    arrays = Arrays(
        {
            "k.inv_dt": np.full((1, 1), -4.0),
            "k.A_real": np.log(-lam.real[None, half]),
            "k.A_imag": -lam.imag[None, half],
            "k.B": pair(b),
            "k.C": np.random.default_rng(0).standard_normal((1, 1, n // 2, 2)),
            "k.P": pair(p),
        }
    )
    with pytest.raises(AireError, match="no usable diagonal form"):
        diagonalize(arrays, {})
