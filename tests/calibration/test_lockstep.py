"""Forward passes that wait for each other."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor, nn

from aireprune.calibration.calls import Call
from aireprune.calibration.lockstep import Lockstep
from aireprune.errors import AireError


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        y: Tensor = self.b(z) if x.sum() > 0 else z
        return y


def test_every_pass_stops_at_every_module_and_sees_what_was_changed_before() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    xs = [torch.randn(3, 2) for _ in range(5)]
    before = threading.active_count()
    with torch.no_grad(), Lockstep(model, list(model), [Call((x,)) for x in xs]) as passes:
        for number, module in enumerate(model):
            stop = passes.advance()
            assert stop is not None
            assert stop.module is module
            wanted = [model[:number](x) for x in xs]
            torch.testing.assert_close([call.first for call in stop.calls], wanted)
            module.weight.mul_(2)  # type: ignore[operator]
        assert passes.advance() is None
    assert threading.active_count() == before
    assert not any(module._forward_pre_hooks for module in model)


def test_a_pass_that_fails_ends_all_of_them() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    before = threading.active_count()
    calls = [Call((torch.randn(3, width),)) for width in (2, 5)]
    with Lockstep(model, list(model), calls) as passes:
        passes.advance()
        with pytest.raises(RuntimeError):
            passes.advance()
    assert threading.active_count() == before


def test_batches_that_take_different_ways() -> None:
    model = Branching()
    calls = [Call((torch.full((1, 2), value),)) for value in (1.0, -1.0)]
    with Lockstep(model, [model.a, model.b], calls) as passes:
        passes.advance()
        with pytest.raises(AireError, match="different ways"):
            passes.advance()
