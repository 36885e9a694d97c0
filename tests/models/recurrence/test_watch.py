"""Changes of a module that are noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from aireprune.models.recurrence.watch import Watch


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def write(module: nn.Sequential) -> None:
    with torch.no_grad():
        module[0].weight.add_(1)


def write_a_buffer(module: nn.Sequential) -> None:
    module[1].running_mean.add_(1)


def other_memory(module: nn.Sequential) -> None:
    module[0].weight.data = module[0].weight.data.clone()


def exchange(module: nn.Sequential) -> None:
    module[0].bias = nn.Parameter(module[0].bias.detach().clone())


def exchange_a_part(module: nn.Sequential) -> None:
    module[0] = nn.Linear(2, 3)


def add_a_part(module: nn.Sequential) -> None:
    module.append(nn.Identity())


def train(module: nn.Sequential) -> None:
    module.train(not module[1].training)


@pytest.mark.parametrize(
    "change",
    [write, write_a_buffer, other_memory, exchange, exchange_a_part, add_a_part, train],
    ids=lambda f: f.__name__,
)
def test_a_change_is_noticed(change: Callable[[nn.Sequential], None]):
    module = network()
    watch = Watch(module)
    module(torch.zeros(4, 2)) if not module.training else None
    assert watch.unchanged()
    change(module)
    assert not watch.unchanged()


def test_inference_tensors_do_not_say():
    with torch.inference_mode():
        module = network()
    assert not Watch(module).unchanged()
