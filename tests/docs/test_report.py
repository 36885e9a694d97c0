"""The Python of docs/report.md runs, on the embedded model and a few of its digits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pages import ROOT, fenced

from aireprune import embedded


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: the example was not run")
    pytest.importorskip("matplotlib").use("agg")
    (block,) = fenced(ROOT / "docs" / "report.md", "python")
    digits = embedded.digits()
    few = digits.test.rows(slice(0, 12))
    names: dict[str, object] = {"model": str(embedded.MODEL), "task": replace(digits, validation=few, test=few)}
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace('"s5.msgpack"', "model").replace('"smnist"', "task"), "report.md", "exec"), names)
    assert {"report.html", "curves.svg", "summary.json"} <= {path.name for path in (tmp_path / "sweep").iterdir()}
    assert (tmp_path / "explore.html").is_file()
