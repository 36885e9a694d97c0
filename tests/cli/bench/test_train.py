"""aire bench train."""

from __future__ import annotations

import json

import pytest

SMALL = ("--batch", 1, "--length", 16, "--features", 4, "--states", 4, "--repeats", 1)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it
def test_a_row_per_implementation(aire):
    code, out, _ = aire("bench", "train", *SMALL)
    assert code == 0
    assert "batch 1, length 16, h 4, n 4" in out
    document = json.loads(aire("bench", "train", *SMALL, "--json")[1])
    assert {"ours", "eager associative scan"} <= set(document["seconds"])
    assert all(name in out for name in document["seconds"])


def test_a_whole_classifier(aire):
    code, out, err = aire("bench", "train", *SMALL, "--layers", 2)
    assert code == 0, err
    assert "an S5 classifier of 2 blocks, batch 1, length 16, h 4, n 4" in out
    document = json.loads(aire("bench", "train", *SMALL, "--layers", 2, "--json")[1])
    assert document["layers"] == 2
    assert {"ours", "ours, block not fused"} <= set(document["seconds"])


def test_a_classifier_of_another_family(aire):
    code, out, err = aire("bench", "train", *SMALL, "--layers", 1, "--family", "mamba2", "--head-dim", 4)
    assert code == 0, err
    assert "a Mamba-2 classifier of 1 blocks, batch 1, length 16, h 4, n 4" in out
    document = json.loads(aire("bench", "train", *SMALL, "--layers", 1, "--family", "s4d", "--json")[1])
    assert document["family"] == "s4d"
    assert {"ours", "ours, by FFT"} <= set(document["seconds"])


@pytest.mark.parametrize(("given", "told"), [(("--family", "s6"), "s5, s4d"), (("--family", "mamba"), "--layers")])
def test_what_cannot_be_timed(aire, given, told):
    code, _, err = aire("bench", "train", *SMALL, *given)
    assert code == 1
    assert told in err
