"""aire bench step."""

from __future__ import annotations

import json


def test_a_row_for_every_family(aire):
    small = ("--features", 8, "--states", 8, "--layers", 1, "--repeats", 1, "--batch", 2)
    code, out, _ = aire("bench", "step", *small, "--family", "s5", "--family", "s4d")
    assert code == 0
    assert "One step of 2 streams: 1 layers, 8 features, 8 states, 25 % of them kept" in " ".join(out.split())
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["s5", "s4d"]
    found = json.loads(aire("bench", "step", *small, "--family", "s5", "--json")[1])
    assert found["size"]["batch"] == 2
    assert list(found["families"]) == ["s5"]


def test_an_unknown_family(aire):
    code, _, err = aire("bench", "step", "--family", "gru")
    assert code == 1
    assert "There is no family 'gru' to measure" in err
