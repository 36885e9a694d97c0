"""ListOps: the generator against an evaluator of its own, and LRA's files."""

from __future__ import annotations

import hashlib
import statistics
from dataclasses import replace

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import listops as module
from aireprune.tasks import load_task
from aireprune.tasks.listops import LRA, MINI, WORDS, Grammar, generate

SMALL = replace(MINI, count=600)
HEADER = "Source\tTarget\n"


def words(row: np.ndarray, length: int) -> list[str]:
    return [WORDS[number] for number in row[:length]]


def value(found: list[str], depth: int = 1) -> tuple[int, int, int, int]:
    """(value, words used, deepest operator, most arguments) of the expression that begins a list of words."""
    if found[0].isdigit():
        return int(found[0]), 1, depth - 1, 0
    place, values, deepest, most = 1, [], depth, 0
    while found[place] != "]":
        number, used, deep, wide = value(found[place:], depth + 1)
        place, deepest, most = place + used, max(deepest, deep), max(most, wide)
        values.append(number)
    operators = {"[MIN": min, "[MAX": max, "[MED": lambda v: int(statistics.median(v)), "[SM": lambda v: sum(v) % 10}
    return operators[found[0]](values), place + 1, deepest, max(most, len(values))


@pytest.mark.parametrize("grammar", [SMALL, replace(LRA, count=40)], ids=["mini", "lra"])
def test_the_answers_are_right_and_the_bounds_are_kept(grammar: Grammar):
    split = generate(grammar)
    for row, answer, length in zip(split.x, split.y, split.lengths, strict=True):
        result, used, deepest, most = value(words(row, length))
        assert (result, used) == (answer, length)
        assert grammar.shortest <= length <= grammar.longest
        assert deepest < grammar.depth
        assert 2 <= most <= grammar.args
        assert not row[length:].any()


def test_balanced_answers_and_no_expression_twice():
    split = generate(SMALL)
    assert np.bincount(split.y).tolist() == [60] * 10
    assert len(np.unique(split.x, axis=0)) == 600


def test_the_same_expressions_on_every_machine():
    split = generate(SMALL)
    digest = hashlib.sha256(split.x.tobytes() + split.y.tobytes()).hexdigest()
    assert digest[:16] == "611e0f914766ea37"
    assert not np.array_equal(generate(replace(SMALL, seed=1)).x, split.x)


def test_the_task_is_generated_once_and_then_read(monkeypatch):
    monkeypatch.setattr(module, "MINI", SMALL)
    monkeypatch.setattr(module, "MINI_COUNTS", (400, 100, 100))
    first = load_task("listops-mini")
    monkeypatch.setattr(module, "generate", None)
    again = load_task("listops-mini")
    assert np.array_equal(first.train.x, again.train.x)
    assert [len(first.train), len(first.validation), len(first.test)] == [400, 100, 100]
    assert (first.d_input, first.classes, first.length) == (17, 10, 96)
    batch = first.batch(first.test.rows(slice(0, 5)))
    assert batch.x.dtype == np.int64
    assert batch.lengths.shape == (5,)


@pytest.mark.parametrize("folder", ["lra_release/listops-1000", "lra_release/lra_release/listops-1000", "listops"])
def test_files_of_the_release(data, folder):
    (data / folder).mkdir(parents=True)
    lines = {
        "train": "( ( ( [MIN 3 ) 4 ) ] )\t3\n( ( ( [SM 7 ) ( ( ( [MAX 2 ) 8 ) ] ) ) ] )\t5\n",
        "val": '"( ( ( [MED 3 ) 4 ) ] )"\t3\n',
        "test": "( ( ( [MAX 9 ) 0 ) ] )\t9\r\n",
    }
    for part, text in lines.items():
        (data / folder / f"basic_{part}.tsv").write_text(HEADER + text)
    task = load_task("listops")
    assert words(task.train.x[1], task.train.lengths[1]) == ["[SM", "7", "[MAX", "2", "8", "]", "]"]
    assert task.train.y.tolist() == [3, 5]
    assert task.validation.lengths.tolist() == task.test.lengths.tolist() == [4]
    assert task.train.x.shape == (2, 2048)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Text\tTarget\n", "header line Source"),
        (HEADER + "( ( ( [MIN 3 ) 4 ) ] )\n", "line 2: expected an expression, a tab and one digit"),
        (HEADER + "( ( ( [MIN 3 ) 4 ) ] )\t3\n\t4\n", "line 3: expected"),
        (HEADER + "( ( ( [MIN 3 ) 4 ) ] )\t12\n", "line 2: expected"),
        (b"\xff\xfe\x00", "is not text"),
    ],
)
def test_a_damaged_file_is_named(data, text, message):
    (data / "listops-1000").mkdir()
    path = data / "listops-1000" / "basic_train.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(AireError, match=message) as error:
        load_task("listops")
    assert str(path) in str(error.value)


def test_a_missing_part_is_named(data):
    (data / "listops-1000").mkdir()
    with pytest.raises(AireError, match=r"basic_train\.tsv, which is not there"):
        load_task("listops")


def test_arguments_in_another_order_leave_every_value_as_it_is():
    split = generate(replace(MINI, count=200))
    assert split.lengths is not None
    varied = module.reordered(np.random.default_rng(0), split.x)
    assert (varied != split.x).any(1).mean() > 0.9
    for before, after, length, answer in zip(split.x, varied, split.lengths, split.y, strict=True):
        assert value(words(after, length))[0] == answer
        assert sorted(before) == sorted(after)
    cut = split.x[:, :8].copy()  # operators that are not closed
    assert np.array_equal(module.reordered(np.random.default_rng(0), cut), cut)
