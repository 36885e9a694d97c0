"""IMDB in its three layouts, AAN pairs, WikiText: small files in the original formats."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task
from aireprune.tasks.retrieval import SHIFTS, WINDOW, pairs

REVIEWS = {  # sorted as the files are
    ("train", "neg"): ["Dull.", 'Bad, "bad" film<br />'] * 10,
    ("train", "pos"): ["A café in Paris: superb.", "x" * 5000] * 10,
    ("test", "neg"): ["no"] * 3,
    ("test", "pos"): ["yes"] * 2,
}


def as_folder(data: Path) -> None:
    for (part, kind), texts in REVIEWS.items():
        (data / "aclImdb" / part / kind).mkdir(parents=True)
        for number, text in enumerate(texts):
            (data / "aclImdb" / part / kind / f"{number:03}_8.txt").write_text(text, encoding="utf-8")
    (data / "aclImdb/train/unsup").mkdir()
    (data / "aclImdb/train/unsup/0_0.txt").write_text("no label")
    (data / "aclImdb/train/urls_pos.txt").write_text("http://")


def as_archive(data: Path) -> None:
    members = {"aclImdb/README": "", "aclImdb/train/unsup/0_0.txt": "no label"}
    for (part, kind), texts in REVIEWS.items():
        for number, text in reversed(list(enumerate(texts))):
            members[f"aclImdb/{part}/{kind}/{number:03}_8.txt"] = text
    with tarfile.open(data / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def as_jsonl(data: Path) -> None:
    for part in ("train", "test"):
        lines = "".join(
            json.dumps({"label": int(kind == "pos"), "text": text}) + "\n"
            for (where, kind), texts in REVIEWS.items()
            for text in texts
            if where == part
        )
        (data / f"imdb_{part}.jsonl.xz").write_bytes(lzma.compress(lines.encode()))


@pytest.mark.parametrize("layout", [as_folder, as_archive, as_jsonl])
def test_every_layout_of_imdb_gives_the_same(data, layout):
    layout(data)
    task = load_task("text")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [36, 4, 5]
    assert (task.length, task.d_input, task.classes) == (4096, 256, 2)
    assert task.test.y.tolist() == [0, 0, 0, 1, 1]
    found = {
        (bytes(x[:length]), int(y))
        for split in (task.train, task.validation)
        for x, y, length in zip(split.x, split.y, split.lengths, strict=True)
    }
    assert found == {
        (b"Dull.", 0),
        (b'Bad, "bad" film<br />', 0),
        ("A café in Paris: superb.".encode(), 1),
        (b"x" * 4096, 1),
    }
    assert not task.test.x[0, 2:].any()


def test_a_plain_jsonl_of_the_hub(data):
    (data / "imdb").mkdir()
    for part in ("train", "test"):
        rows = [{"text": f"{number}", "label": number % 2} for number in range(10)]
        (data / "imdb" / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert load_task("text").test.y.tolist() == [0, 1] * 5


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("imdb_train.jsonl.xz", lzma.compress(b'{"label": 1, "text": "a"}\n')[:-9]),
        ("imdb_train.jsonl.xz", b"not xz"),
        ("imdb_train.jsonl", b'{"label": 1}\n'),
        ("imdb_train.jsonl", b'{"label": 4, "text": "a"}\n'),
        ("imdb_train.jsonl", b"[1]\n"),
        ("imdb_train.jsonl", b"{\n"),
        ("imdb_train.jsonl", b""),
        ("aclImdb_v1.tar.gz", b"\x1f\x8b broken"),
        ("aclImdb/train/pos/0_9.txt", b"only positive ones"),
    ],
)
def test_damaged_reviews_are_named(data, name, content):
    (data / name).parent.mkdir(parents=True, exist_ok=True)
    (data / name).write_bytes(content)
    with pytest.raises(AireError) as error:
        load_task("text")
    assert str(data / name.split("/pos")[0]) in str(error.value)
    assert "ai.stanford.edu" in str(error.value)


# Retrieval

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


# Language modelling


@pytest.mark.parametrize("end", ["raw", "tokens"])
def test_wikitext(data, end):
    (data / "wikitext-2-raw").mkdir()
    for part, size in (("train", 5000), ("valid", 2049), ("test", 2048)):
        text = bytes(range(97, 123)) * 200
        (data / "wikitext-2-raw" / f"wiki.{part}.{end}").write_bytes(text[:size])
    task = load_task("lm")
    assert task.language
    assert [len(split) for split in (task.train, task.validation, task.test)] == [4, 2, 1]
    assert np.array_equal(task.train.x.reshape(-1)[1:], task.train.y.reshape(-1)[:-1])
    assert task.length == task.train.x.shape[1] == 1024


def test_a_short_or_broken_text_is_named(data):
    (data / "wikitext2_train.txt").write_text("too short")
    with pytest.raises(AireError, match=r"wikitext2_train\.txt has 9 bytes"):
        load_task("lm")
    (data / "tinyshakespeare.txt.xz").write_bytes(b"not xz")
    with pytest.raises(AireError, match=r"tinyshakespeare\.txt\.xz cannot be read"):
        load_task("lm-mini")
