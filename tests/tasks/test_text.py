"""IMDB in its three forms: small files in the original formats."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task

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
