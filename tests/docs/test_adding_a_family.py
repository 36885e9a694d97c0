"""The code of docs/adding-a-family.md is executed, registered, and held to what the page promises."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import aireprune
from aireprune.families import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-family.md"


@pytest.fixture(autouse=True)
def family(monkeypatch: pytest.MonkeyPatch) -> None:
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # dataclasses look their module up
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
        exec(compile(block, str(PAGE), "exec"), page.__dict__)
    monkeypatch.setitem(FAMILIES, "modal", page.__dict__["BalancedModal"]())


def layer(path: Path, n: int = 8) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def parts(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)

    rate, angle = rng.uniform(-4, -1, n).astype(np.float32), rng.uniform(0.1, 3, n).astype(np.float32)
    tensors = {"net.0.rate": rate, "net.0.angle": angle, "net.0.B": parts(n, 3), "net.0.C": parts(2, n)}
    save_file(tensors, path)
    return tensors


def response(tensors: dict[str, np.ndarray], length: int = 400) -> np.ndarray:
    """y = 2 Re(C x) to an impulse at each input, from the equation."""
    lam = np.exp(-np.exp(tensors["net.0.rate"].astype(float)) + 1j * tensors["net.0.angle"])
    powers = lam ** np.arange(length)[:, None]
    return 2 * np.einsum("on,ln,nh->loh", tensors["net.0.C"], powers, tensors["net.0.B"]).real


def test_masked_is_removed_and_scores_are_energies(tmp_path: Path) -> None:
    full = layer(tmp_path / "full.safetensors")
    plan = aireprune.prune_file(
        tmp_path / "full.safetensors", tmp_path / "small.safetensors", ratio=0.5, reduce="truncate"
    )
    aireprune.prune_file(tmp_path / "full.safetensors", tmp_path / "masked.safetensors", plan, mask=True)
    small, masked = (load_file(tmp_path / f"{name}.safetensors") for name in ("small", "masked"))
    assert small["net.0.rate"].shape == (4,)
    np.testing.assert_allclose(response(small), response(masked), atol=1e-6)
    lam = np.abs(np.exp(-np.exp(full["net.0.rate"].astype(float))))
    energies = (np.abs(full["net.0.B"]) ** 2).sum(1) * (np.abs(full["net.0.C"]) ** 2).sum(0) / (1 - lam**2)
    assert set(plan.layers[0].kept) == set(np.argsort(-energies)[:4])


@pytest.mark.parametrize("reduce", ["refit", "balanced"])
def test_better_reductions_are_better(tmp_path: Path, reduce: str) -> None:
    full = layer(tmp_path / "full.safetensors")
    errors = {}
    for how in ("truncate", reduce):
        target = tmp_path / f"{how}.safetensors"
        plan = aireprune.prune_file(tmp_path / "full.safetensors", target, ratio=0.25, reduce=how)
        error = np.linalg.norm(response(full) - response(load_file(target))) / np.linalg.norm(response(full))
        assert plan.certificate is not None
        assert plan.certificate[0]["relative_h2"] == pytest.approx(error, rel=1e-2)
        errors[how] = error
    assert errors[reduce] < errors["truncate"]
