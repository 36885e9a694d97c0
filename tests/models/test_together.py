"""Copies of one model run together: the same bits as one by one, and nothing that they share runs twice."""

from __future__ import annotations

import copy

import pytest
import torch

import aireprune
from aireprune.models import together
from aireprune.models.create import new_model
from aireprune.models.lru_config import LRUConfig
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5_config import S5Config
from aireprune.models.together import Together

CONFIGS = {
    "s5": S5Config(d_input=7, d_output=3, h=6, n=16, layers=3, bidirectional=True, C_init="lecun_normal"),
    "lru": LRUConfig(d_input=7, d_output=3, h=6, n=16, layers=3),
    "s4d": S4DConfig(d_input=7, d_output=3, h=6, n=16, layers=3),
    "mamba": MambaConfig(d_input=7, d_output=3, d_model=6, d_state=4, layers=2),
}


def copies(model):
    """The model, one that differs in its last layer, two that are equal, one that differs in its first layer."""
    last, first = copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        list(last.parameters())[-1].mul_(1.5)
        next(first.parameters()).mul_(0.5)
    small = aireprune.prune(model, ratio=0.5, reduce="truncate")
    return [model, last, small, copy.deepcopy(small), first]


@pytest.mark.parametrize("family", CONFIGS)
def test_outputs_are_those_of_every_model_alone(family):
    models = copies(new_model(CONFIGS[family], 0).eval())
    x, lengths = torch.randint(0, 7, (5, 20)), torch.tensor([20, 3, 7, 1, 12])
    with torch.inference_mode():
        for given in (lengths, None):
            alone = [model(x) if given is None else model(x, given) for model in models]
            for ours, theirs in zip(Together(models)(x, given), alone, strict=True):
                assert torch.equal(ours, theirs)


def test_what_is_shared_runs_once(monkeypatch):
    model = new_model(CONFIGS["s5"], 0).eval()
    for length in (9, 9000):  # in cache, and too long for it
        runs = []
        block, blocks = together.fused_block, together.run_ready
        monkeypatch.setattr(together, "fused_block", lambda *given, run=block, told=runs: told.append(1) or run(*given))
        monkeypatch.setattr(
            together,
            "run_ready",
            lambda ready, *given, run=blocks, told=runs: told.append(len(ready.modes)) or run(ready, *given),
        )
        with torch.inference_mode():
            Together(copies(model))(torch.randint(0, 7, (4, length)), None)
        # the full model and the one with another head share 3 layers, the two small ones theirs, the last shares none
        assert runs == ([3, 3, 3] if length == 9 else [1] * 9)
        monkeypatch.undo()


def test_a_watched_model_runs_as_a_whole():
    model = new_model(CONFIGS["s5"], 0).eval()
    seen = []
    model.layers[1].register_forward_hook(lambda module, args, out: seen.append(out))
    with torch.inference_mode():
        Together([model])(torch.randint(0, 7, (2, 9)), None)
    assert len(seen) == 1
