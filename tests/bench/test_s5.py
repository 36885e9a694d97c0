"""The measurements of S5 run, at toy sizes; their numbers are not judged here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aireprune.bench.lra import LRA, make_model
from aireprune.bench.s5 import bench_layer, bench_models, bench_scaling

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it
TINY = replace(LRA["text"], h=8, n=10, length=20, d_input=3)


def test_layer_compares_the_same_layer():
    result = bench_layer(TINY, batch=2, repeats=1, other_repeats=1)
    assert result["difference"] < 1e-5  # masked = removed
    assert {"ours", "masked", "removed", "products"} <= set(result["seconds"])
    assert len(result["ours to products"]) == 3


def test_models():
    result = bench_models("text", TINY, batch=2, repeats=1, other_repeats=1)
    dense, removed = (make_model(TINY, pairs) for pairs in (TINY.pairs, TINY.kept))
    assert result["parameters"] == [sum(p.numel() for p in model.parameters()) for model in (dense, removed)]
    assert result["paper"]["speedup on an H100"] == 2.49


def test_scaling_covers_a_factor_of_sixteen():
    result = bench_scaling(replace(TINY, n=8), batch=4, repeats=1)
    assert list(result["batch"]["seconds"]) == ["1", "2", "4", "8", "16"]
    assert list(result["states"]["seconds"]) == ["2", "4", "8", "16", "32"]
    assert list(result["length"]["seconds"]) == ["5", "10", "20", "40", "80"]


def test_suite_commands(aire, monkeypatch):
    monkeypatch.setitem(LRA, "text", TINY)
    for what in ("layer", "model"):
        status, out, _ = aire("bench", what, "--suite", "lra", "--task", "text", "--repeats", 1, "--other-repeats", 1)
        assert status == 0
        assert "text" in out
    assert aire("bench", "scaling", "--task", "text", "--repeats", 1)[0] == 0
    status, _, err = aire("bench", "layer", "--suite", "imagenet")
    assert status
    assert "lra" in err
