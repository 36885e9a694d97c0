"""aire bench layer."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it
FEW = ("--task", "text", "--repeats", 1, "--other-repeats", 1, "--batch", 2)


@pytest.mark.usefixtures("tiny")
def test_a_row_per_size(aire):
    code, out, _ = aire("bench", "layer", *FEW)
    assert code == 0
    assert "text  h 8, n 10, L 20" in out
    document = json.loads(aire("bench", "layer", *FEW, "--json")[1])
    assert list(document["sizes"]) == ["text"]


def test_there_is_one_suite(aire):
    code, _, err = aire("bench", "layer", "--suite", "imagenet")
    assert code == 1
    assert err == "aire: There is no suite 'imagenet'; there is lra.\n"
