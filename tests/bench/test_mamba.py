"""The measurements of Mamba run, at toy sizes; their numbers are not judged here."""

from __future__ import annotations

from aireprune.bench.mamba import bench_mamba, mixer_runs


def test_mamba() -> None:
    result = bench_mamba(1, 8, (16,), 0, repeats=1, model_repeats=1)
    assert set(result["scan"]["seconds"]) == {"16", "8", "4", "1"}
    assert set(result["mixer"]) == {"16"}
    assert all(len(result["mixer"]["16"][key]) == 3 for key in ("16 to products", "16 to 4"))
    assert set(mixer_runs(1, 8, 16, (4, 2))) == {"4", "2", "products"}
