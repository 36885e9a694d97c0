"""The regulariser against the method's own Gramians, finite differences, and what it does to a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import CONFIG, brighter_half

from aireprune.errors import AireError
from aireprune.families.found import lti_family
from aireprune.method.gramians import gramians
from aireprune.models.arrays import ModuleArrays
from aireprune.models.create import AnyConfig, new_model
from aireprune.models.lru_config import LRUConfig
from aireprune.models.mamba_config import MambaConfig
from aireprune.pruning.source import open_module
from aireprune.training.hankel import gramian, hankel_sum, sum_of_values
from aireprune.training.loop import train_model
from aireprune.training.recipes import Recipe

LRU = LRUConfig(d_input=1, d_output=2, h=6, n=5, layers=2)


@pytest.mark.parametrize("config", [replace(CONFIG, bidirectional=False, layers=2), LRU])
def test_the_sum_is_that_of_the_method(config: AnyConfig) -> None:
    model = new_model(config, 3)
    arrays, wanted = ModuleArrays(model), 0.0
    for layer in open_module(model).layers:
        p, q = gramians(lti_family(layer, "a test").system(layer, arrays))
        wanted += np.sqrt(np.linalg.eigvals(p @ q).real.clip(0)).sum()
    assert hankel_sum(model).item() == pytest.approx(wanted, rel=1e-4)


def test_both_directions_count() -> None:
    model = new_model(CONFIG, 3)
    before = hankel_sum(model)
    with torch.no_grad():
        for module in model.modules():
            if hasattr(module, "C2"):
                module.C2.zero_()
    assert 0.1 < hankel_sum(model) / before < 0.9


def test_the_gradient_is_the_derivative() -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.complex128, generator=generator)

    lam, b, c = 0.8 * draw(3) / draw(3).abs().clamp(min=1.5), draw(3, 2), draw(3, 2)
    lam = lam / lam.abs().clamp(min=1.2)

    def total(lam: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return sum_of_values(gramian(lam, b), gramian(lam.conj(), c))

    inputs = [t.requires_grad_() for t in (lam, b, c)]
    assert torch.autograd.gradcheck(total, inputs, eps=1e-6, atol=1e-5)


def test_training_with_it_makes_the_values_smaller(tmp_path) -> None:
    sums = []
    for weight in (0.0, 0.1):
        model = train_model(brighter_half(), CONFIG, Recipe(epochs=3, batch=20, hankel=weight), tmp_path / str(weight))
        sums.append(hankel_sum(model).item())
    assert sums[1] < 0.9 * sums[0]


def test_models_without_such_layers_are_refused(tmp_path) -> None:
    config = MambaConfig(d_input=1, d_output=2, d_model=8, layers=1)
    with pytest.raises(AireError, match="S5 and LRU layers only"):
        train_model(brighter_half(), config, Recipe(hankel=0.1), tmp_path / "run")


@pytest.mark.parametrize("weight", [-1.0, float("nan")])
def test_weights_that_mean_nothing_are_refused(weight: float) -> None:
    with pytest.raises(AireError, match="hankel"):
        Recipe(hankel=weight)
