"""Full and pruned models timed side by side."""

from __future__ import annotations

from typing import Any

import pytest
import small_models
import torch
from foreign_models import MODELS as FOREIGN

import aireprune
from aireprune.bench import pruned
from aireprune.bench.pruned import Speed, bench_pruned, random_inputs
from aireprune.errors import AireError
from aireprune.pruning.source import open_file


@pytest.mark.parametrize("name", ["s5", "mamba"])
def test_the_models_take_turns(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seen: dict[str, int] = {}

    def turns(runs: Any, repeats: int) -> dict[str, Any]:
        for what, run in runs.items():
            run()
            seen[what] = sum(p.numel() for p in run.func.parameters())
        return {what: torch.full((repeats,), 1.0 + seen[what]).numpy() for what in runs}

    monkeypatch.setattr(pruned, "take_turns", turns)
    aireprune.save(small_models.MODELS[name](), tmp_path / "in")
    plan = aireprune.prune_file(tmp_path / "in", tmp_path / "out", ratio=0.5)
    speed = bench_pruned(open_file(tmp_path / "in"), plan)
    assert seen["bare"] < seen["pruned"] < seen["full"]
    assert seen["pruned"] == sum(p.numel() for p in aireprune.load(tmp_path / "out").parameters())
    assert speed.speedup == pytest.approx([(1 + seen["full"]) / (1 + seen["pruned"])] * 3)
    assert speed.share == pytest.approx(1 - (1 + seen["bare"]) / (1 + seen["full"]))


def test_inputs_are_what_a_model_takes() -> None:
    assert random_inputs(small_models.s5()).shape == (pruned.BATCH, pruned.LENGTH, 2)
    tokens = random_inputs(FOREIGN["mamba"]())
    assert tokens.dtype == torch.int64
    assert int(tokens.max()) < 40
    with pytest.raises(AireError, match="A Linear says nothing about its inputs"):
        random_inputs(torch.nn.Linear(2, 2))


def test_a_model_that_gains_nothing_spends_no_time_on_states() -> None:
    speed = Speed(batch=1, length=1, full=1.0, pruned=1.0, speedup=(1.0, 1.0, 1.0), limit=0.9)
    assert speed.share == 0.0
