"""The measurements of S4D run, at toy sizes; their numbers are not judged here."""

from __future__ import annotations

from aireprune.bench.s4d import EINSUM, KEPT, OURS, bench_s4d, layer_runs, ragged_layer


def test_s4d() -> None:
    result = bench_s4d((32,), (1, 2), h=16, pairs=8, repeats=1, einsum_repeats=1)
    assert [size["batch"] for size in result["sizes"]] == [1, 2]
    for size in result["sizes"]:
        assert size["difference"] < 1e-4  # what is compared is the same layer
        assert {OURS, KEPT, EINSUM} <= set(size["seconds"])
    assert set(layer_runs(1, 8, 4, 4)) == set(result["sizes"][0]["seconds"])


def test_the_ragged_layer_holds_a_quarter() -> None:
    alive = (ragged_layer(256, 32).kernel.C != 0).any(-1)
    assert 0.2 < alive.double().mean() < 0.3
    assert alive.sum(1).max() > 2 * alive.double().sum(1).mean()
