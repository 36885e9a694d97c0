"""Cells judged by several threads: the rows of one, and torch as it was before."""

from __future__ import annotations

import threading

import pytest
import torch

from aireprune.experiments import workers
from aireprune.experiments.cells import read_cells
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import run_sweep
from aireprune.experiments.variants import Variant, make_variants
from aireprune.experiments.workers import in_groups

REQUEST = SweepRequest(
    variants=(*make_variants(("aire", "random"), ("truncate",), False), Variant.of("aire", "balanced", True)),
    ratios=(0.25, 0.5, 0.75),
    seeds=2,
)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_rows_do_not_depend_on_the_number_of_threads(toy, tmp_path, threads, monkeypatch):
    seen = set()
    judge = workers.Judge.__call__
    monkeypatch.setattr(workers.Judge, "__call__", lambda *given: seen.add(threading.get_ident()) or judge(*given))
    for count in (1, 3):
        threads(count)
        seen.clear()
        run_sweep(*toy, REQUEST, tmp_path / str(count))
        assert torch.get_num_threads() == count
        assert 1 <= len(seen) <= count
    assert (tmp_path / "1" / "cells.jsonl").read_text() == (tmp_path / "3" / "cells.jsonl").read_text()


def test_a_problem_in_a_thread_ends_the_sweep(toy, tmp_path, threads, monkeypatch):
    threads(2)

    def judge(self, cells):
        raise OSError("no space left")

    monkeypatch.setattr(workers.Judge, "__call__", judge)
    with pytest.raises(OSError, match="no space left"):
        run_sweep(*toy, REQUEST, tmp_path)
    assert torch.get_num_threads() == 2
    assert not read_cells(tmp_path / "cells.jsonl")


def test_groups_are_as_large_as_memory_and_workers_allow():
    cells = list(REQUEST.cells())
    assert [cell for group in in_groups(cells, 2, 100) for cell in group] == cells
    assert max(map(len, in_groups(cells, 1, 100))) == 3
    assert max(map(len, in_groups(cells * 9, 1, 100))) == workers.TOGETHER
    assert max(map(len, in_groups(cells * 9, 1, workers.GROUP_BYTES))) == 1
