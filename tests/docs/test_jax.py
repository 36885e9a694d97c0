"""Out of JAX and back: the example runs, and so does the Python of docs/jax.md, which continues it."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import ROOT, fenced

import aireprune

for module in ("jax", "flax.serialization", "optax"):
    pytest.importorskip(module, reason=f"{module} is not installed: nothing of JAX was run")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "jax_round_trip.py"))


def test_the_example(
    example: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["jax_round_trip.py", "--steps", "2"])
    example["main"]()
    found = json.loads(capsys.readouterr().out)
    assert sum(found["states"]) == 16, "half of 2 times 16"
    assert all(0 <= found[name] <= 1 for name in ("full", "pruned", "trained on"))


def test_the_page(example: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut gives the answers of the full model with its other states silenced, and moments follow their states."""
    monkeypatch.chdir(tmp_path)
    write, prune, fresh, on = fenced(ROOT / "docs" / "jax.md", "python")
    names = dict(example)
    for block in (write, prune):
        exec(compile(block, "jax.md", "exec"), names)
    x, _ = names["batch"](1, 4)
    aireprune.prune_file("full.msgpack", "masked.msgpack", names["plan"], mask=True)
    masked = names["serialization"].msgpack_restore(Path("masked.msgpack").read_bytes())["params"]
    small = names["make_state"](names["sizes"], names["tree"]["params"])
    expected = names["answers"](names["state"], masked, x)
    np.testing.assert_allclose(names["answers"](small, small.params, x), expected, atol=1e-5)
    exec(compile(fresh, "jax.md", "exec"), names)
    assert (int(names["small"].step), int(names["small"].opt_state[0].count)) == (6, 3)
    exec(compile(on, "jax.md", "exec"), names)
    assert (int(names["small"].step), int(names["small"].opt_state[0].count)) == (6, 6)
    for layer in names["plan"].layers:
        path = layer.name.removeprefix("params.")
        before, after = names["before"]["0"]["mu"][path], names["moments"]["0"]["mu"][path]
        np.testing.assert_array_equal(after["B"], before["B"][list(layer.kept)])
        np.testing.assert_array_equal(after["C"], before["C"][:, list(layer.kept)])
        np.testing.assert_array_equal(after["D"], before["D"])
