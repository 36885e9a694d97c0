"""Language modelling: windows of text files."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task


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
