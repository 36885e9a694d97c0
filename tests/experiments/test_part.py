"""Parts: together they are the sweep, and none has a cell of another."""

from __future__ import annotations

import pytest

from aireprune.errors import AireError
from aireprune.experiments.part import Part
from aireprune.experiments.request import make_sweep_request


@pytest.mark.parametrize("count", [1, 3, 7, 200])
def test_parts_are_disjoint_and_complete(count):
    cells = list(make_sweep_request({}).cells())
    parts = [Part(number, count).of(cells) for number in range(1, count + 1)]
    assert sorted(cell.key for part in parts for cell in part) == sorted(cell.key for cell in cells)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_names_and_texts():
    assert Part.parse("3/20") == Part(3, 20)
    assert str(Part(3, 20)) == "3/20"
    assert Part(3, 20).folder == "part-03-of-20"


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("0/4", "There is no part 0/4: parts are 1/4 to 4/4"),
        ("5/4", "There is no part 5/4"),
        ("three/4", "not NUMBER/COUNT"),
        ("3", "not NUMBER/COUNT"),
        ("1/0", "not NUMBER/COUNT"),
    ],
)
def test_parts_that_do_not_exist(text, mention):
    with pytest.raises(AireError, match=mention):
        Part.parse(text)
