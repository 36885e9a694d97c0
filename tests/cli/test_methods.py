"""aire methods."""

from __future__ import annotations

import json

import aireprune
from aireprune.method.reductions import REDUCTIONS


def test_every_method_and_reduction_is_listed(aire):
    code, out, _ = aire("methods", "--json")
    assert code == 0
    assert {method["name"] for method in json.loads(out)["methods"]} == set(aireprune.methods())
    code, out, _ = aire("methods")
    assert code == 0
    listed = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert set(aireprune.methods()) | set(REDUCTIONS) <= listed


def test_summaries_speak_of_flags(aire):
    for flags in ((), ("--json",)):
        _, out, _ = aire("methods", *flags)
        assert "needs --calibrate" in out
        assert "calibrate=" not in out
