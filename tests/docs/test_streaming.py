"""The code of docs/streaming.md runs, and its three ways give the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pages import ROOT, fenced


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {}
    (block,) = fenced(ROOT / "docs" / "streaming.md", "python")
    exec(compile(block, "streaming.md", "exec"), names)
    answers, answer, model, sound = (names[name] for name in ("answers", "answer", "model", "sound"))
    assert len(answers) == 5  # type: ignore[arg-type]
    with torch.no_grad():
        whole = model(sound)  # type: ignore[operator]
    torch.testing.assert_close(answer, whole, rtol=0, atol=1e-5)
    torch.testing.assert_close(answers[3], whole, rtol=0, atol=1e-5)  # type: ignore[index]
