"""The Python of docs/start.md and docs/your-model.md runs as it stands, on what comes with the package and small models."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from foreign_models import transformers_model
from helpers import GOLDEN
from pages import ROOT, fenced

import aireprune

S5 = "bidir_bn_half_glu2"


def run(blocks: list[str], names: dict[str, object]) -> dict[str, object]:
    for block in blocks:
        exec(compile(block, "page", "exec"), names)
    return names


def test_the_first_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    run(fenced(ROOT / "docs" / "start.md", "python"), {})
    assert capsys.readouterr().out == "98.4% after, 99.6% before\n"
    assert (tmp_path / "smaller" / "plan.json").is_file()


def test_pytorch_hugging_face_and_jax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: the page was not run")
    pytest.importorskip("flax.serialization", reason="flax is not installed: the page was not run")
    monkeypatch.chdir(tmp_path)
    network = aireprune.load("zoo:listops-s5")
    torch.save(network.state_dict(), "checkpoint.pth")
    transformers_model("Mamba", state_size=6).save_pretrained("mamba-hf")
    for suffix in ("msgpack", "json"):
        shutil.copy(GOLDEN / f"{S5}.{suffix}", tmp_path / f"s5.{suffix}")
    batches = [torch.randint(0, 17, (4, 40), generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    blocks = fenced(ROOT / "docs" / "your-model.md", "python")
    assert len(blocks) == 4
    names = run(blocks, {"build_network": lambda: network, "batches": batches})
    variables = names["variables"]
    assert isinstance(variables, dict)
    assert variables["params"]
    assert isinstance(names["plan"], aireprune.Plan)
