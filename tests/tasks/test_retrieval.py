"""Retrieval: pairs of papers in the original format, and the stand-in made from reviews."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task
from aireprune.tasks.retrieval import SHIFTS, WINDOW, pairs

LINES = b'1\t11-1\t12-2\tfirst "text"\tsecond\n0\t13-3\t14-4\tcaf\xc3\xa9\t' + b"y" * 5000 + b"\n0.0\t1\t2\t\ta\r\n"


def write_aan(folder: Path, train: bytes = LINES) -> None:
    folder.mkdir(parents=True)
    for part, content in (("train", train), ("eval", LINES), ("test", LINES)):
        (folder / f"new_aan_pairs.{part}.tsv").write_bytes(content)


@pytest.mark.parametrize("folder", ["lra_release/tsv_data", "lra_release/lra_release/tsv_data", "tsv_data", "aan"])
def test_pairs_of_the_release(data, folder):
    write_aan(data / folder)
    task = load_task("retrieval")
    assert task.pairs
    assert task.train.x.shape == (3, 2, 4000)
    assert task.train.y.tolist() == [1, 0, 0]
    assert task.train.lengths.tolist() == [[12, 6], [5, 4000], [1, 1]]
    assert bytes(task.train.x[0, 0, :12]) == b'first "text"'
    batch = task.batch(task.train)
    assert batch.x.shape == (6, 4000)
    assert batch.lengths.tolist() == [12, 5, 1, 6, 4000, 1]  # first documents first


@pytest.mark.parametrize("line", [b"2\ta\tb\tc\td\n", b"1\ta\tb\tc\n", b"\n", b"label\tid1\tid2\ttext1\ttext2\n"])
def test_a_damaged_line_is_named(data, line):
    write_aan(data / "aan", LINES + line)
    with pytest.raises(AireError, match=r"new_aan_pairs\.train\.tsv, line 4: expected label, id, id"):
        load_task("retrieval")


def test_a_missing_part_of_the_pairs_is_named(data):
    write_aan(data / "aan")
    (data / "aan/new_aan_pairs.eval.tsv").unlink()
    with pytest.raises(AireError, match=r"new_aan_pairs\.eval\.tsv, which is not there"):
        load_task("retrieval")


def test_the_pairs_of_passages():
    """Label 1 if and only if the second passage continues inside the first."""
    rng = np.random.default_rng(0)
    texts = [(0, bytes(rng.integers(1, 256, length, dtype=np.uint8))) for length in rng.integers(300, 900, 200)]
    split = pairs(texts, seed=0)
    kept = [text for _, text in texts if len(text) >= WINDOW + SHIFTS[1]]
    assert len(split) == len(kept)
    assert np.bincount(split.y).tolist() == [len(kept) // 2, len(kept) - len(kept) // 2]
    for (first, second), label in zip(split.x, split.y, strict=True):
        overlap = bytes(first).find(bytes(second[:40]))
        assert (SHIFTS[0] <= overlap <= SHIFTS[1]) if label else overlap == -1
        assert any(bytes(second) in text for text in kept)
    assert np.array_equal(pairs(texts, seed=0).x, split.x)


def test_the_stand_in_for_retrieval(data):
    texts = [{"label": n % 2, "text": f"{n} " * 300} for n in range(100, 130)]
    for part in ("train", "test"):
        (data / f"imdb_{part}.jsonl").write_text("\n".join(map(json.dumps, texts)))
    task = load_task("retrieval-mini")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [27, 3, 30]
    assert task.batch(task.test).x.shape == (60, 256)
