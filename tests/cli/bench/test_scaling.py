"""aire bench scaling."""

from __future__ import annotations

import json

import pytest


@pytest.mark.usefixtures("tiny")
def test_length_batch_and_states(aire):
    few = ("--task", "text", "--repeats", 1, "--batch", 4)
    code, out, _ = aire("bench", "scaling", *few)
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()[2:]} == {"length", "batch", "states"}
    document = json.loads(aire("bench", "scaling", *few, "--json")[1])
    assert set(document) == {"schema", "task", "length", "batch", "states"}
