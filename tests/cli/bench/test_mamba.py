"""aire bench mamba."""

from __future__ import annotations

import json

from aireprune.cli.bench import mamba

SMALL = ("--length", 8, "--layers", 0, "--repeats", 1)


def test_the_scan_and_mixers(aire, monkeypatch):
    monkeypatch.setattr(mamba, "WIDTHS", (16,))
    code, out, _ = aire("bench", "mamba", *SMALL)
    assert code == 0
    rows = out.splitlines()[2:]
    assert [row.split(",")[0].split("  ")[0] for row in rows] == ["scan", "mixer", "mixer / its four products"]
    document = json.loads(aire("bench", "mamba", *SMALL, "--json")[1])
    assert (list(document["mixer"]), document["model"]) == (["16"], {})


def test_models_are_rows_too():
    measured = {"seconds": {"stock": 2.0, "accelerated": 1.0}, "stock to accelerated": (2.0, 1.9, 2.1)}
    scan = {"seconds": {"16": 2.0, "4": 1.0}, "16 to 4": (2.0, 1.9, 2.1)}
    rows = mamba._rows({"scan": scan, "mixer": {}, "model": {"mamba decode": measured}})
    assert rows[1][0] == "mamba decode, stock → accelerated"
    assert rows[1][3] == "2.00x"
