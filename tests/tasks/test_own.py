"""Tasks from a file of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task


def write(path, **changes):
    rng = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 6), ("validation", 4), ("test", 5)):
        arrays[f"{part}_x"] = rng.standard_normal((count, 7, 2)).astype(np.float32)
        arrays[f"{part}_y"] = np.arange(count) % 3
    np.savez(path, **{k: v for k, v in (arrays | changes).items() if v is not None})
    return str(path)


def test_values_tokens_and_next_tokens(tmp_path):
    task = load_task(write(tmp_path / "a.npz"))
    assert (task.length, task.d_input, task.classes, task.metric, len(task.test)) == (7, 2, 3, "accuracy", 5)
    np.testing.assert_array_equal(task.inputs(task.test.x), task.test.x)
    parts = {"train": 6, "validation": 4, "test": 5}
    whole = {f"{part}_x": np.full((n, 7), 8, np.uint8) for part, n in parts.items()}
    lengths = {f"{part}_lengths": np.full(n, 3) for part, n in parts.items()}
    task = load_task(write(tmp_path / "b.npz", **whole, **lengths))
    assert (task.d_input, task.inputs(task.test.x).dtype, task.test.lengths.tolist()) == (9, np.int64, [3] * 5)
    following = {f"{part}_y": np.full((n, 7), 4) for part, n in parts.items()}
    assert load_task(write(tmp_path / "c.npz", **whole, **following)).metric == "bits per byte"
    many = {f"{part}_y": np.full((n, 7), 256) for part, n in parts.items()}
    assert load_task(write(tmp_path / "d.npz", **whole, **many)).metric == "bits per token"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_y": None}, "has no array test_y"),
        ({"test_x": np.zeros((5, 9, 2))}, "differ in type or in the shape"),
        ({"test_x": np.zeros((4, 7, 2))}, "for 5 answers"),
        ({"test_y": np.full(5, 0.5)}, "expected classes"),
        ({"test_y": np.full(5, -1)}, "expected classes"),
        ({"test_lengths": np.full(5, 8)}, "numbers from 1 to 7"),
        ({"test_x": np.array([object()] * 5)}, "not an .npz file of plain arrays"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, change, message):
    with pytest.raises(AireError, match=message):
        load_task(write(tmp_path / "a.npz", **change))
