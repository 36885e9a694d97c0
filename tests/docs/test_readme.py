"""The Python of the README runs as it stands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from helpers import GOLDEN, Golden
from pages import ROOT, fenced

S5 = "bidir_bn_half_glu2"
BLOCKS = fenced(ROOT / "README.md", "python")


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the README's blocks open, as the working directory."""
    transformers = pytest.importorskip("transformers")
    for suffix in ("msgpack", "json"):
        shutil.copy(GOLDEN / f"{S5}.{suffix}", tmp_path / f"s5.{suffix}")
    config = transformers.MambaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, state_size=16)
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path / "some-mamba")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(block: str) -> dict[str, object]:
    names: dict[str, object] = {"x": Golden(S5).inputs()[0]}
    exec(compile(block, "README.md", "exec"), names)
    return names


def test_the_example_on_the_embedded_model(beside: Path) -> None:
    names = run(BLOCKS[0])
    model, smaller = names["model"], names["smaller"]
    assert isinstance(model, torch.nn.Module)
    assert isinstance(smaller, torch.nn.Module)
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in model.parameters())
    assert {file.name for file in (beside / "smaller").iterdir()} == {"config.json", "model.safetensors", "plan.json"}


def test_the_example_with_a_plan(beside: Path) -> None:
    names = run(BLOCKS[1])
    logits = names["logits"]
    assert isinstance(logits, torch.Tensor)
    assert torch.isfinite(logits).all()


def test_the_example_with_transformers(beside: Path) -> None:
    smaller = run(BLOCKS[2])["smaller"]
    assert isinstance(smaller, torch.nn.Module)
    assert smaller(torch.arange(8)[None]).logits.shape == (1, 8, 50)


def test_every_block_is_run() -> None:
    assert len(BLOCKS) == 3
