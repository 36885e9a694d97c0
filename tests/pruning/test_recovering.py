"""Recovery of checkpoints: what is written, what is kept on the way, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from foreign_models import MODELS

import aireprune
from aireprune.calibration import recovery_run
from aireprune.errors import AireError
from aireprune.pruning import recovering
from aireprune.pruning.prune import prune_checkpoint
from aireprune.pruning.request import make_job
from aireprune.pruning.search import Goal, search_ratio
from aireprune.pruning.source import open_file, open_module
from aireprune.tasks.base import Split, Task

GIVEN = small_models.inputs(64)
CHOICES: dict[str, Any] = {
    "ratio": 0.75,
    "method": "aire",
    "reduce": "truncate",
    "calibrate": GIVEN,
    "calibrate_count": 12,
    "recover_steps": 40,
}


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A model whose states matter: the inner ones are louder than at initialisation."""
    model = small_models.s5(bidirectional=True, batchnorm=True)
    with torch.no_grad():
        for block in model.layers:
            block.seq.C1.mul_(4)
            block.seq.C2.mul_(4)
    aireprune.save(model, tmp_path / "full")
    return tmp_path / "full"


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same weights, bit for bit."""
    mine, its = (aireprune.load(path).state_dict() for path in (one, other))
    return all(torch.equal(value, its[name]) for name, value in mine.items())


def test_a_folder_holds_what_recovery_in_memory_gives(full: Path, tmp_path: Path) -> None:
    plan = aireprune.prune_file(full, tmp_path / "out", **CHOICES)
    small = aireprune.prune(aireprune.load(full), **CHOICES)
    assert plan.recovered == small.plan.recovered == 40
    assert plan.certificate is None
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["recovered"] == 40
    found = aireprune.load(tmp_path / "out")
    assert all(torch.equal(value, found.state_dict()[name]) for name, value in small.state_dict().items())
    calibrated = aireprune.prune(full, **{**CHOICES, "recover_steps": None})
    original = aireprune.load(full)
    unseen = small_models.inputs(16, 9)
    assert small_models.distance(original, small, unseen) < small_models.distance(original, calibrated, unseen)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "out"]
    assert aireprune.certify(tmp_path / "out").violations == []


@pytest.mark.parametrize("name", ["s4d", "mamba"])
def test_a_torch_file_stays_one(name: str, tmp_path: Path) -> None:
    torch.save(small_models.MODELS[name]().state_dict(), tmp_path / "full.pth")
    (tmp_path / "full.json").write_text(small_models.POST_NORM)
    plan = aireprune.prune_file(tmp_path / "full.pth", tmp_path / "out.pth", **CHOICES)
    small = aireprune.prune(aireprune.load(tmp_path / "full.pth"), **CHOICES, layout=plan.layout)
    assert small_models.distance(small, aireprune.load(tmp_path / "out.pth"), GIVEN[:8]) < 1e-8


def test_a_hugging_face_folder_is_recovered_as_its_model_is(tmp_path: Path) -> None:
    model = MODELS["mamba"]()
    model.save_pretrained(tmp_path / "hf")
    tokens = np.random.default_rng(0).integers(1, 40, (24, 20))
    choices = {**CHOICES, "layout": "uniform", "calibrate": tokens}
    aireprune.prune_file(tmp_path / "hf", tmp_path / "out", **choices)
    found = aireprune.load(tmp_path / "out").state_dict()
    for name, value in aireprune.prune(model, **choices).state_dict().items():
        torch.testing.assert_close(found[name], value, msg=name)


class Interrupted(Exception):
    pass


def interrupted(full: Path, target: Path, **changes: Any) -> None:
    """A recovery that is ended after half of its steps, all of which are kept."""

    def report(line: str) -> None:
        if "step 30 of" in line:
            raise Interrupted

    job = make_job(None, {**CHOICES, **changes})  # type: ignore[typeddict-item]
    with pytest.raises(Interrupted):
        prune_checkpoint(open_file(full, units=job.units), target, job, report=report)
    assert not target.exists()


@pytest.fixture
def kept_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_run, "SAVED_AFTER", 0.0)


@pytest.mark.usefixtures("kept_at_every_step")
def test_interrupted_and_resumed_it_writes_the_same_weights(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aireprune.prune_file(full, tmp_path / "straight", **CHOICES)
    interrupted(full, tmp_path / "out")
    assert (tmp_path / ".out.recovery" / "recovery.pt").is_file()
    steps = []
    learn = recovery_run.Run._learn
    monkeypatch.setattr(recovery_run.Run, "_learn", lambda run, share: steps.append(run.step) or learn(run, share))
    aireprune.prune_file(full, tmp_path / "out", **CHOICES)
    assert steps == list(range(29, 40))
    assert same(tmp_path / "straight", tmp_path / "out")
    assert not (tmp_path / ".out.recovery").exists()


@pytest.mark.usefixtures("kept_at_every_step")
@pytest.mark.parametrize("changes", [{"ratio": 0.5}, {"recover_steps": 41}, {"recover_count": 40}])
def test_what_is_kept_of_another_recovery_is_not_used(full: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    interrupted(full, tmp_path / "out", **{**changes, **({"recover_steps": 41} if "recover_steps" in changes else {})})
    aireprune.prune_file(full, tmp_path / "out", **CHOICES)
    aireprune.prune_file(full, tmp_path / "straight", **CHOICES)
    assert same(tmp_path / "straight", tmp_path / "out")


@pytest.mark.usefixtures("kept_at_every_step")
def test_what_is_damaged_is_not_used(full: Path, tmp_path: Path) -> None:
    interrupted(full, tmp_path / "out")
    file = tmp_path / ".out.recovery" / "recovery.pt"
    file.write_bytes(file.read_bytes()[:1000])
    aireprune.prune_file(full, tmp_path / "out", **CHOICES)
    aireprune.prune_file(full, tmp_path / "straight", **CHOICES)
    assert same(tmp_path / "straight", tmp_path / "out")


def test_progress_is_told_with_the_time_that_is_left(full: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    job = make_job(None, CHOICES)  # type: ignore[arg-type]
    prune_checkpoint(open_file(full, units=job.units), tmp_path / "out", job, report=lines.append)
    assert lines[-1].startswith("recovery: step 40 of 40, divergence ")
    assert lines[-1].endswith(", 0 s left")
    assert len(lines) <= recovering.LINES


def test_a_search_for_a_ratio_does_not_recover(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise AssertionError("recovered")

    monkeypatch.setattr(recovering, "recovered", fail)
    split = Split(GIVEN, np.zeros(len(GIVEN), int))
    task = Task("toy", small_models.LENGTH, 2, 3, lambda x: x, split, split, split)
    found = search_ratio(
        open_module(aireprune.load(full)),
        make_job(None, CHOICES),
        Goal(task=task, max_drop=100),  # type: ignore[arg-type]
    )
    assert found.ratio == 0.99


@pytest.mark.parametrize(
    ("changes", "mention"),
    [
        ({"calibrate": None}, "give them with calibrate="),
        ({"recover_steps": None, "recover": 0}, "above 0"),
        ({"recover_steps": None, "recover": -1.5}, "above 0"),
        ({"recover_steps": None, "recover": float("nan")}, "above 0"),
        ({"recover_steps": 0}, "at least one step"),
        ({"recover": 1}, "either a time"),
        ({"recover_count": 3}, "some dozens of sequences; got 3"),
        ({"calibrate": iter([torch.from_numpy(GIVEN)])}, "more than once"),
    ],
)
def test_what_makes_no_sense_is_refused(full: Path, tmp_path: Path, changes: dict[str, Any], mention: str) -> None:
    for work in (
        lambda choices: aireprune.prune(full, **choices),
        lambda choices: aireprune.prune_file(full, tmp_path / "out", **choices),
    ):
        with pytest.raises(AireError, match=mention):
            work({**CHOICES, **changes})
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_text_is_learnt_in_windows(tmp_path: Path) -> None:
    from aireprune.calibration.text import WINDOW
    from aireprune.pruning.calibrating import read_recovery

    model = small_models.s5(d_input=256, d_output=256, mode="tokens")
    (tmp_path / "text.txt").write_text("To be, or not to be, that is the question. " * 100)
    job = make_job(None, {**CHOICES, "calibrate": tmp_path / "text.txt", "recover_count": 6})  # type: ignore[typeddict-item]
    inputs = read_recovery(open_module(model), job)
    assert inputs is not None
    assert len(inputs) == 6
    assert inputs[0].first.shape[1] == WINDOW
