"""The document inside of a page: nothing in it is taken for HTML, and arrays come back bit by bit."""

from __future__ import annotations

import base64
import json

import numpy as np

from aireprune.reports.document import Fact
from aireprune.reports.packing import script_json

HOSTILE = "</script><script>alert(1)</script><!-- & \u2028 é"


def test_text_means_the_same_and_holds_no_tag():
    text = script_json(Fact(label=HOSTILE, value="1"))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["label"] == HOSTILE


def test_arrays_and_numbers():
    values = np.array([1.5, np.nan, np.inf, 1e-310])
    found = json.loads(script_json({"a": values, "b": np.array([7], np.uint32), "c": float("inf"), "d": (1.0, None)}))
    back = np.frombuffer(base64.b64decode(found["a"]["f8"]), "<f8")
    assert back.tobytes() == values.tobytes()
    assert base64.b64decode(found["b"]["u4"]) == b"\x07\0\0\0"
    assert (found["c"], found["d"]) == (None, [1.0, None])
