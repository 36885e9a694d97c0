"""The training benchmark compares implementations of the same thing."""

from __future__ import annotations

import pytest

from aireprune.bench.train import bench_train


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it
def test_the_implementations_agree_and_ratios_are_to_ours():
    result = bench_train(batch=2, length=37, h=6, n=8, repeats=2)
    assert result["difference"] < 1e-5
    assert result["ratio"]["ours"] == (1.0, 1.0, 1.0)
    assert set(result["ratio"]) >= {"ours", "eager associative scan"}
