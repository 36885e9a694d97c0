"""Results on disk: they come back as they were, and a file that was cut off is repaired."""

from __future__ import annotations

import json

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.experiments.cells import Key, LayerCount, Result, append_cell, pack, read_cells, unpack

DONE = Result(
    key=Key("aire", 0.5, 0),
    removed=0.47,
    layers=(LayerCount("layers.0", 3, 8),),
    parameters=123,
    validation=0.5,
    test=0.25,
    answers=pack(np.array([1.0, 0, 0, 0])),
)


@pytest.mark.parametrize("values", [np.array([1.0, 0, 0, 1, 1, 1, 0, 1, 1]), np.array([1.25, 2.5, 0.125])])
def test_answers_survive_packing(values, tmp_path):
    np.testing.assert_array_equal(unpack(pack(values), len(values)), values)
    result = Result.from_dict(json.loads(json.dumps({**DONE.to_dict(), "answers": pack(values)})))
    np.testing.assert_array_equal(result.per_example(len(values)), values)


def test_results_come_back(tmp_path):
    path = tmp_path / "cells.jsonl"
    assert read_cells(path) == {}
    append_cell(path, DONE)
    with path.open("a") as file:
        file.write('{"variant": "aire", "rat')  # the machine went down while a line was written
    assert read_cells(path) == {("aire", 0.5, 0): DONE}
    assert path.read_text() == json.dumps(DONE.to_dict()) + "\n"


@pytest.mark.parametrize("line", ["{}", "[1]", "aire", '{"variant": "aire", "ratio": 0.5, "seed": 0}'])
def test_a_line_that_is_no_cell_is_named(tmp_path, line):
    (tmp_path / "cells.jsonl").write_text(line + "\n")
    with pytest.raises(AireError, match=r"cells\.jsonl holds a line that is not a cell"):
        read_cells(tmp_path / "cells.jsonl")
