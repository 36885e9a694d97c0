"""aire bench s4d."""

from __future__ import annotations

import json

from aireprune.cli.bench import s4d


def test_four_comparisons_per_size(aire, monkeypatch):
    monkeypatch.setattr(s4d, "LENGTHS", (32,))
    monkeypatch.setattr(s4d, "BATCHES", (1, 2))
    small = ("--features", 4, "--pairs", 4, "--repeats", 1)
    code, out, _ = aire("bench", "s4d", *small)
    assert code == 0
    assert [line[:14] for line in out.splitlines()[2:]] == ["L 32, batch 1 "] * 4 + ["L 32, batch 2 "] * 4
    assert len(json.loads(aire("bench", "s4d", *small, "--json")[1])["sizes"]) == 2
