"""aire bench serve."""

from __future__ import annotations

import json

import pytest

from aireprune.bench import serve


def test_rows_and_reasons(aire, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(serve, "absent", lambda: dict.fromkeys(serve.FILES, "it is away"))
    monkeypatch.setattr(serve, "DECODED", 1)
    small = ("--length", 5, "--layers", 1, "--repeats", 1, "--family", "mamba")
    code, out, _ = aire("bench", "serve", *small)
    assert code == 0
    assert "generate, int8" in out
    assert "llama.cpp Q8_0 was not measured: it is away." in out
    found = json.loads(aire("bench", "serve", *small, "--json")[1])
    assert list(found["models"]) == ["mamba, N 16", "mamba, N 4"]


def test_an_unknown_family(aire):
    code, _, err = aire("bench", "serve", "--family", "gru")
    assert code == 1
    assert "There is no family 'gru' to measure" in err
