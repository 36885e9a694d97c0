"""LRA's Retrieval: two documents as bytes, do they belong together? Pairs are stored (N, 2, L), lengths (N, 2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.tasks.base import VALIDATION_SEED, Split, Task, find_data, hold_out, lra, pad, tokens
from aireprune.tasks.cache import cached, stamp, write_arrays
from aireprune.tasks.text import Review, reviews

LENGTH = 4000
PLACES = tuple(f"{folder}/new_aan_pairs.train.tsv" for folder in (*lra("tsv_data"), "aan"))
HOW = "Unpack lra_release.gz of github.com/google-research/long-range-arena there."
WINDOW = 256
SHIFTS = (128, 192)
MINI_TEST = 4_000


def retrieval() -> Task:
    """ACL Anthology Network, are two papers linked by a citation: 147,086 / 18,090 / 17,437 pairs of up to 4,000 bytes."""
    first = find_data("retrieval", PLACES, HOW)
    splits = [read_pairs(first.with_name(f"new_aan_pairs.{part}.tsv")) for part in ("train", "eval", "test")]
    return Task("retrieval", LENGTH, 256, 2, tokens, *splits)


def read_pairs(path: Path) -> Split:
    """LRA's lines `label, id, id, text, text` with tabs between; padded once and then read from the cache."""
    if not path.is_file():
        raise AireError(f"The retrieval task needs {path}, which is not there. {HOW}")
    return cached("retrieval", (stamp(path), LENGTH), lambda folder: _write(folder, path))


def _write(folder: Path, path: Path) -> None:
    labels, texts = [], []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            cells = line.rstrip(b"\r\n").split(b"\t")
            if len(cells) != 5 or cells[0] not in (b"0", b"1", b"0.0", b"1.0"):
                raise AireError(f"{path}, line {number}: expected label, id, id, text and text with tabs between.")
            labels.append(int(cells[0][:1]))
            texts += [cell[:LENGTH] for cell in cells[3:]]
    if not labels:
        raise AireError(f"{path} is empty. {HOW}")
    x, lengths = pad(texts, LENGTH)
    write_arrays(folder, x=x.reshape(-1, 2, LENGTH), y=np.array(labels), lengths=lengths.reshape(-1, 2))


def retrieval_mini() -> Task:
    """A stand-in, not AAN: are two passages of 256 bytes from the same place of an IMDB review? Half the answers are yes.

    The second passage begins 128 to 192 bytes after the first one in the same review, or anywhere in another review. The
    test pairs come from the test reviews; of the others a tenth is held out for validation.
    """
    full = pairs(reviews("train", "retrieval-mini"), VALIDATION_SEED)
    train, validation = hold_out(full, len(full) // 10)
    test = pairs(reviews("test", "retrieval-mini"), VALIDATION_SEED + 1)
    return Task("retrieval-mini", WINDOW, 256, 2, tokens, train, validation, test.rows(slice(0, MINI_TEST)))


def pairs(rows: list[Review], seed: int) -> Split:
    """One pair for every long enough review, in random order, with labels 1, 0, 1, 0, ..."""
    rng = np.random.default_rng(seed)
    texts = [np.frombuffer(text, np.uint8) for _, text in rows if len(text) >= WINDOW + SHIFTS[1]]
    texts = [texts[k] for k in rng.permutation(len(texts))]
    x, y = np.empty((len(texts), 2, WINDOW), np.uint8), 1 - np.arange(len(texts)) % 2
    for row, text in enumerate(texts):
        start = int(rng.random() * (len(text) - WINDOW - SHIFTS[1] + 1))
        other, second = text, start + SHIFTS[0] + int(rng.random() * (SHIFTS[1] - SHIFTS[0] + 1))
        if y[row] == 0:
            other = texts[row - 1]
            second = int(rng.random() * (len(other) - WINDOW + 1))
        x[row] = text[start : start + WINDOW], other[second : second + WINDOW]
    return Split(x, y.astype(np.int64))
