"""What states cost, against what is left of a model without them."""

from __future__ import annotations

from typing import Any

import pytest
import small_models
import torch
from foreign_models import MODELS as FOREIGN
from torch import nn

import aireprune
from aireprune.pruning.costs import BYTES, costs
from aireprune.pruning.source import open_module


def entries(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", [*small_models.MODELS, "mamba2 of transformers", "jamba of transformers"])
def test_parameters_of_states_are_those_that_go_with_them(name: str) -> None:
    """Half of the states take half of the parameters of states with them."""
    model = FOREIGN[name.split()[0]]() if "transformers" in name else small_models.MODELS[name]()
    small = aireprune.prune(model, ratio=0.5, reduce="truncate", layout="uniform")
    found = costs(open_module(model, units=small.plan.units), small.plan)
    assert found.state_parameters / 2 == entries(model) - entries(small)
    assert found.parameters == sum(
        t.numel() for n, t in model.state_dict().items() if "running" not in n and "num_" not in n
    )


def test_memory_is_what_the_caches_hold() -> None:
    """The state of transformers' own caches, full and pruned."""
    for name in ("mamba", "mamba2"):
        model: Any = FOREIGN[name]()
        small: Any = aireprune.prune(model, ratio=0.5)
        found = costs(open_module(model, units=small.plan.units), small.plan)
        for memory, one in zip(found.memory, (model, small), strict=True):
            with torch.no_grad():
                cache = one(torch.arange(6)[None], use_cache=True).cache_params
            states = [state for layer in cache.layers for state in layer.recurrent_states.values()]
            assert memory == BYTES * sum(state.numel() for state in states)


def test_operations_fall_with_the_states() -> None:
    model = small_models.mamba()
    half = aireprune.plan(model, ratio=0.5, layout="uniform")
    none = aireprune.plan(model, ratio=0.0)
    assert costs(open_module(model), none).speedup == 1
    found = costs(open_module(model), half)
    assert found.speedup == pytest.approx(1 / (1 - found.operation_share / 2), rel=1e-3)
    assert 0 < found.parameter_share < found.operation_share < 1


def test_embeddings_are_looked_up_unless_they_are_the_head() -> None:
    model: Any = FOREIGN["mamba"]()
    plan = aireprune.plan(model, ratio=0.5)
    untied = costs(open_module(model), plan).operations
    tensors = {name: value for name, value in model.state_dict().items() if not name.startswith("lm_head")}

    class Tied(nn.Module):
        def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return tensors

    assert costs(open_module(Tied(), model.config.to_dict()), plan).operations == untied
