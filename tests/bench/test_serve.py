"""All engines decode the same model; those that are not installed are named."""

from __future__ import annotations

import pytest

from aireprune.bench import serve
from aireprune.bench.serve import ACCELERATED, EIGHT, LLAMA, LLAMA_EIGHT, SINGLE, STOCK, ServeSize, bench_serve
from aireprune.extras import is_installed

pytest.importorskip("transformers")


@pytest.mark.parametrize("family", ["mamba", "mamba2"])
def test_serve(family, monkeypatch):
    monkeypatch.setattr(serve, "DECODED", 1)
    result = bench_serve((family,), ServeSize(length=12, layers=1), repeats=1, prompts=1)
    assert [found["states"] for found in result["models"].values()] == {"mamba": [16, 4], "mamba2": [128, 32]}[family]
    for found in result["models"].values():
        assert (
            {STOCK, ACCELERATED, SINGLE, EIGHT} <= set(found["decode"]["seconds"]) == set(found["prefill"]["seconds"])
        )
        assert max(found["difference"][name] for name in (ACCELERATED, SINGLE)) < 1e-4
        assert 0 < found["difference"][EIGHT] < 0.1
        assert found["decode"]["times ours"].keys() == found["difference"].keys() - {SINGLE, EIGHT} | {STOCK}
        for name, most in ((LLAMA, 1e-4), (LLAMA_EIGHT, 1.0)):
            assert (name in result["absent"]) != (name in found["difference"])
            assert found["difference"].get(name, 0.0) < most


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(serve, "is_installed", lambda library: library != "llama_cpp" and is_installed(library))
    assert set(serve.absent()) == {LLAMA, LLAMA_EIGHT}
    assert "llama_cpp is not installed: pip install 'aireprune[serve]'" in serve.absent()[LLAMA]
