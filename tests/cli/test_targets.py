"""aire targets, and aire prune --target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_models import transformers_model
from json_schema import check

from aireprune.pruning.targets import TARGETS


def test_every_target_with_its_sources(aire) -> None:
    code, out, _ = aire("targets")
    assert code == 0
    for target in TARGETS.values():
        assert target.name in out
        assert all(source in out for source in target.sources)
    document = json.loads(aire("targets", "--json")[1])
    check("targets", document)
    assert [target["name"] for target in document["targets"]] == list(TARGETS)


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    pytest.importorskip("transformers")
    model = transformers_model("Mamba2", state_size=64, num_heads=4, head_dim=16, n_groups=1, chunk_size=8)
    model.save_pretrained(tmp_path / "mamba2")
    capsys.readouterr()  # transformers' progress bar
    return tmp_path / "mamba2"


def test_the_end_of_prune_says_what_rounding_did(aire, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, shown, err = aire("prune", folder, "-o", out, "--ratio", 0.75, "--target", "mlx")
    assert code == 0, err
    assert "rounded up to multiples of 32, because mlx takes no others: 50.0 % of the states went where 75.0 %" in err
    assert shown.splitlines()[-1] == f'Load it: mlx_lm.load("{out}")'
    assert json.loads((out / "config.json").read_text())["state_size"] == 32
    code, shown, err = aire("prune", folder, "-o", tmp_path / "dry", "--ratio", 0.75, "--target", "mlx", "--dry-run")
    assert code == 0
    assert "50.0 % of the states went where 75.0 %" in err


def test_refusals_speak_of_flags(refused, folder: Path) -> None:
    half = ("--ratio", 0.5, "--target")
    refused(folder, "--target vllm needs one state size", *half, "vllm", "--layout", "adaptive")
    refused(folder, "leave out --round-to", *half, "mlx", "--round-to", 4)
    refused(folder, "Did you mean mlx?", *half, "mlxx")
