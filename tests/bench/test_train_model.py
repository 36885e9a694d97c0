"""The implementations of a training step compute the same loss."""

from __future__ import annotations

import importlib.util

from aireprune.bench.s5_jax import JAX
from aireprune.bench.train_model import OURS, PLAIN, bench_train_model
from aireprune.models.s5_config import S5Config


def test_the_implementations_agree_and_ratios_are_to_ours():
    config = S5Config(d_input=1, d_output=4, h=6, n=8, layers=2, bidirectional=True, C_init="lecun_normal", dropout=0.2)
    result = bench_train_model(config, batch=3, length=29, repeats=2)
    assert result["difference"] < 1e-5
    assert result["ratio"][OURS] == (1.0, 1.0, 1.0)
    installed = {JAX} if importlib.util.find_spec("jax") else set()
    assert set(result["seconds"]) == {OURS, PLAIN} | installed
