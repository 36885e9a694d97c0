"""The implementations of a training step compute the same loss."""

from __future__ import annotations

import importlib.util

import pytest

from aireprune.bench.s4d import EINSUM
from aireprune.bench.train_families import CHUNKS, FFT, MAMBAPY, OURS, PARTS, Size, bench_train_family

INSTALLED = {MAMBAPY} if importlib.util.find_spec("mambapy") else set()


@pytest.mark.parametrize(
    ("family", "others"), [("s4d", {FFT, EINSUM}), ("mamba", INSTALLED), ("mamba2", {PARTS, CHUNKS})]
)
def test_the_implementations_agree_and_ratios_are_to_ours(family, others):
    size = Size(family=family, batch=2, length=50, h=8, n=6, layers=2, head_dim=4)
    result = bench_train_family(size, repeats=2)
    assert result["family"] == family
    assert result["difference"] < 1e-5
    assert result["ratio"][OURS] == (1.0, 1.0, 1.0)
    assert set(result["seconds"]) == {OURS} | others
