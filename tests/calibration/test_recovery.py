"""Recovery: closer to the full model on held-out inputs, never further, and the same after an interruption."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from small_models import MODELS, inputs
from stranger_models import STRANGERS
from torch import Tensor, nn

import aireprune
from aireprune.calibration import recovery_run
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.recovery import Recovered, recover
from aireprune.calibration.recovery_run import Effort, Keeper, Progress
from aireprune.errors import AireError
from aireprune.pruning.source import open_module

ALL = {**MODELS, **STRANGERS}
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it


def pair(name: str) -> tuple[nn.Module, nn.Module]:
    """A full model, and one with a quarter of its states whose dense layers are off, as the states of untrained models
    matter little."""
    full = ALL[name]()
    reduced = aireprune.prune(full, ratio=0.75, method="aire", reduce="truncate", layout="adaptive")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in reduced.modules():
            if isinstance(module, nn.Linear):
                module.weight.mul_(1 + 0.2 * torch.randn(module.weight.shape, generator=generator))
    return full, reduced


def recovered(full: nn.Module, reduced: nn.Module, steps: int = 40, **how: Any) -> Recovered:
    given = how.pop("given", inputs(64))
    return recover(open_module(full), open_module(reduced), read_inputs(given), Effort(steps=steps), **how)


@pytest.mark.parametrize("name", ALL)
def test_recovery_brings_held_out_answers_closer(name: str) -> None:
    full, reduced = pair(name)
    before = {key: value.clone() for key, value in reduced.state_dict().items()}
    done = recovered(full, reduced)
    assert done.best > 0
    assert done.after.output < done.before.output
    assert done.after.kl is not None
    assert done.before.kl is not None
    assert done.after.kl < done.before.kl
    assert not done.notices
    assert all(torch.equal(before[key], value) for key, value in reduced.state_dict().items())
    assert [p.requires_grad for p in done.model.parameters()] == [p.requires_grad for p in reduced.parameters()]


@pytest.mark.parametrize("name", ["s5 two ways", "network"])
def test_statistics_of_batch_norms_stay(name: str) -> None:
    full, reduced = pair(name)
    done = recovered(full, reduced)
    for key, value in reduced.state_dict().items():
        changed = not torch.equal(value, done.model.state_dict()[key])
        assert changed != any(part in key for part in ("running", "num_batches")), key


class Memory(Keeper):
    """Keeps the last state, as a file would, and the work ends after so many steps."""

    def __init__(self) -> None:
        self.state: dict[str, Any] | None = None

    def load(self) -> dict[str, Any] | None:
        return self.state

    def save(self, state: dict[str, Any]) -> None:
        self.state = copy.deepcopy(state)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("name", ["s5 two ways", "s4d", "mamba", "s5-pytorch"])
def test_resumed_it_ends_in_the_same_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_run, "SAVED_AFTER", 0.0)
    full, reduced = pair(name)
    straight = recovered(full, reduced)
    memory = Memory()

    def stop(progress: Progress) -> None:
        if progress.step == 33:
            raise Interrupted

    with pytest.raises(Interrupted):
        recovered(full, reduced, keeper=memory, report=stop)
    assert memory.state is not None
    assert memory.state["step"] == 32
    resumed = recovered(full, reduced, steps=99, keeper=memory)  # how many steps was decided when it began
    assert (resumed.steps, resumed.best, resumed.after) == (straight.steps, straight.best, straight.after)
    for key, value in straight.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[key]), key


def test_minutes_become_steps_in_the_beginning_and_leave_no_trace() -> None:
    full, reduced = pair("s5")
    memory = Memory()
    timed = recover(open_module(full), open_module(reduced), read_inputs(inputs(64)), Effort(minutes=2 / 60), memory)
    assert timed.steps > 4
    same = recovered(full, reduced, timed.steps)
    every = memory.state["look_every"] if memory.state else 0
    assert every == -(-timed.steps // recovery_run.LOOKS)
    for key, value in same.model.state_dict().items():
        assert torch.equal(value, timed.model.state_dict()[key]), key


def test_what_is_as_close_as_can_be_stays_itself() -> None:
    full = MODELS["s5"]()
    reduced = aireprune.prune(full, ratio=0.0)
    done = recovered(full, reduced)
    assert done.model is reduced
    assert (done.best, done.after) == (0, done.before)
    assert "did not help" in done.notices[0]


class Explosive(nn.Module):
    """A network whose answers are not finite after so many lessons."""

    def __init__(self, inner: nn.Module, lessons: int):
        super().__init__()
        self.inner, self.left = inner, lessons

    def forward(self, x: Tensor) -> Tensor:
        self.left -= torch.is_grad_enabled()
        return self.inner(x) / (0.0 if self.left < 0 else 1.0)


def test_where_the_loss_is_not_finite_the_best_so_far_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_run, "RATES", (1e-3,))  # one trial, of 20 steps
    full, reduced = pair("s5")
    done = recovered(Explosive(full, 30), Explosive(reduced, 30))
    assert done.broken_off == 30
    assert 0 < done.best <= 30
    assert "not finite" in done.notices[0]
    assert done.after.output < done.before.output
    assert all(torch.isfinite(value).all() for value in done.model.state_dict().values())


def test_rows_that_were_filled_up_stay_silent() -> None:
    full = MODELS["s4d"]()
    reduced = aireprune.prune(full, ratio=0.6, layout="adaptive")
    silent = {key: value == 0 for key, value in reduced.state_dict().items() if key.endswith("kernel.C")}
    assert any(rows.any() for rows in silent.values())
    after = recovered(full, reduced).model.state_dict()
    for key, rows in silent.items():
        assert torch.equal(after[key] == 0, rows), key


def test_half_precision_is_learnt_in_single_and_handed_out_in_half() -> None:
    full, reduced = pair("mamba")
    tokens = np.random.default_rng(0).integers(0, 2, (64, 20))
    full, reduced = full.to(torch.bfloat16), reduced.to(torch.bfloat16)
    done = recovered(full, reduced, given=tokens)
    assert done.after.output < done.before.output
    assert {value.dtype for value in done.model.state_dict().values()} == {torch.bfloat16}


def test_a_single_number_as_answer_has_no_divergence_but_a_distance() -> None:
    full = MODELS["s5"]()
    full.decoder = nn.Linear(6, 1)
    reduced = aireprune.prune(full, ratio=0.75, method="aire", reduce="truncate")
    done = recovered(full, reduced)
    assert done.after.kl is None
    assert done.after.output < done.before.output


def test_models_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(AireError, match="is not a reduction"):
        recovered(MODELS["s5"](), MODELS["s4d"]())


@pytest.mark.parametrize("given", [inputs(3), [torch.from_numpy(inputs(1))] * 2])
def test_too_few_inputs_are_refused(given: Any) -> None:
    full, reduced = pair("s5")
    with pytest.raises(AireError, match="needs some dozens of sequences; got"):
        recovered(full, reduced, given=given)


@pytest.mark.parametrize("how", [{"minutes": 0}, {"minutes": -1}, {"minutes": float("nan")}, {"steps": 0}, {}])
def test_an_effort_that_is_none_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(AireError, match="Recovery takes"):
        Effort(**how)
