"""S4 as S4D: exactly where its matrix has an eigenbasis, else fitted and as far off as it says."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import Arrays
from s4_models import hippo_layer, pairs, repository, s4_kernel, s4_layer
from safetensors.numpy import load_file, save_file

import aireprune
from aireprune.errors import AireError
from aireprune.families import find_layers
from aireprune.families.s4 import diagonalize
from aireprune.families.s4d import S4D

FAMILY = S4D()


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


def double_pole(apart: float, h: int = 2) -> Arrays:
    """One pair per channel whose matrix [[-x - 2 q, b], [-b, -x]] has a double pole at b = q, where it is defective."""
    q = 1.5
    ones = np.ones((h, 1))
    return Arrays(
        {
            "k.inv_dt": np.log(np.linspace(0.02, 0.2, h))[:, None],
            "k.A_real": np.log(0.4) * ones,
            "k.A_imag": q * (1 + apart) * ones,
            "k.B": pairs((0.7 - 0.2j) * ones)[None],
            "k.C": pairs((1.1 + 0.3j) * ones)[None],
            "k.P": pairs(np.sqrt(q) * ones + 0j)[None],
        }
    )


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def written(view: Any) -> Arrays:
    """What the stock DPLR kernel would read."""
    return Arrays({name: np.asarray(view[name], float) for name in view.shapes} | {"k.l_kernel": np.array(0)})


@pytest.mark.parametrize("apart", [0.0, 1e-13, -1e-13, 1e-9, -1e-9, 1e-5, -1e-5, 0.1, -0.1])
def test_on_both_sides_of_the_limit_the_layer_stays_what_it_is(apart: float) -> None:
    """The condition is about 1/sqrt(apart), its limit 1e6: the first ones are fitted, the others change basis."""
    arrays = double_pole(apart)
    view = diagonalize(arrays, {})
    assert view is not None
    fitted = abs(apart) < 5e-13
    assert ("were fitted" in view.notices[0]) == fitted
    assert list(view.errors) == ["k"] * fitted
    error = relative(s4_kernel(written(view), 4000), s4_kernel({**arrays, "k.l_kernel": np.array(0)}, 4000))
    assert error < 2e-4
    if fitted:
        assert error == pytest.approx(view.errors["k"], rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("l_kernel", [0, 500])
def test_hippo_is_fitted_and_says_how_well(copies: int, l_kernel: int) -> None:
    arrays = hippo_layer(np.random.default_rng(0), h=3, s=copies, l_kernel=l_kernel)
    view = diagonalize(arrays, {})
    assert view is not None
    assert "no usable eigenbasis in 3 of 3 channels" in view.notices[0]
    assert view.shapes["k.A_real"] == view.shapes["k.C"][1:3]
    assert 28 <= view.shapes["k.A_real"][1] <= 32
    reference = s4_kernel(arrays, 8000)
    assert relative(modal_kernel(view, 8000), reference) == pytest.approx(view.errors["k"], rel=1e-2)
    assert relative(s4_kernel(Arrays({name: view[name] for name in view.shapes}), 8000), reference) < 1e-3
    assert view.errors["k"] < 1e-3
    (layer,) = find_layers(view, {})
    assert FAMILY.system(layer, view).stable


def test_channels_that_have_an_eigenbasis_keep_it() -> None:
    """Three channels on two copies, of which the second is HiPPO's."""
    good = s4_layer(np.random.default_rng(9), 1, 0, False, h=4, s=2, n=32)
    bad = hippo_layer(np.random.default_rng(1), h=4, s=2)
    mixed = Arrays(good)
    for role in ("A_real", "A_imag"):
        mixed[f"k.{role}"] = np.stack([good[f"k.{role}"][0], bad[f"k.{role}"][1]])
    for role in ("B", "P"):
        mixed[f"k.{role}"] = np.stack([good[f"k.{role}"][:, 0], bad[f"k.{role}"][:, 1]], 1)
    exact, view = diagonalize(good, {}), diagonalize(mixed, {})
    assert exact is not None
    assert view is not None
    assert "in 2 of 4 channels" in view.notices[0]
    width = exact.shapes["k.C"][2]
    np.testing.assert_allclose(view["k.C"][0, [0, 2], :width], exact["k.C"][0, [0, 2]], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(view["k.A_real"][[0, 2], :width], exact["k.A_real"][[0, 0]], rtol=1e-6)
    np.testing.assert_allclose(
        modal_kernel(view, 500), s4_kernel(mixed, 500), atol=2e-3 * np.abs(s4_kernel(mixed, 500)).max()
    )


@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_a_fitted_layer_is_pruned_and_its_error_is_written_down(tmp_path: Path, reduce: str) -> None:
    arrays = hippo_layer(np.random.default_rng(2), l_kernel=300)
    stored = {name: values.astype(np.float32 if values.dtype.kind == "f" else int) for name, values in arrays.items()}
    save_file(stored, tmp_path / "s4.safetensors")
    with pytest.warns(aireprune.Notice, match="were fitted to their impulse responses"):
        plan = aireprune.prune_file(
            tmp_path / "s4.safetensors", tmp_path / "small.safetensors", ratio=0.3, reduce=reduce
        )
    assert plan.certificate is not None
    (entry,) = plan.certificate
    assert 0 < entry["diagonal_error"] < 1e-3
    small = load_file(tmp_path / "small.safetensors")
    error = relative(s4_kernel({name: v.astype(float) for name, v in small.items()}, 8000), s4_kernel(arrays, 8000))
    assert error == pytest.approx(entry["relative_h2"], rel=0.05, abs=2 * entry["diagonal_error"])
    certified = aireprune.certify(tmp_path / "small.safetensors")
    assert certified.violations == []
    assert any("made diagonal" in note for note in certified.layers[0].notes)


def test_what_cannot_be_stored_is_refused() -> None:
    """sigmoid holds real parts up to 1, and HiPPO's poles have larger ones."""
    arrays = hippo_layer(np.random.default_rng(3))
    arrays["k.A_real"] = np.zeros_like(arrays["k.A_real"])  # sigmoid(0) = 1/2
    with pytest.raises(AireError, match="of its H2 norm"):
        diagonalize(arrays, {"real_transform": "sigmoid"})


def test_untied_steps_are_refused() -> None:
    arrays = repository(np.random.default_rng(4), untied=True)
    arrays["k.P"] = np.ones((1, 6, 4, 2))
    with pytest.raises(AireError, match="untied steps"):
        diagonalize(arrays, {})
