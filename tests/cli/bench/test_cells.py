"""Times and ratios as cells."""

from __future__ import annotations

from aireprune.cli.bench.cells import faster, milliseconds, spread


def test_cells():
    assert spread((1.5, 1.25, 2.0)) == "1.50 (1.25-2.00)"
    assert spread(None) == ""
    assert (milliseconds(0.0125), milliseconds(0.0125, 0)) == ("12.50 ms", "12 ms")
    found = {"seconds": {"a": 0.004, "b": 0.001}, "a to b": (4.0, 3.5, 4.5), "other": (2.0, 1.0, 3.0)}
    assert faster(found, "a", "b") == ("4.00 ms", "1.00 ms", "4.00x", "3.50 to 4.50")
    assert faster(found, "a", "b", "other")[2] == "2.00x"
