"""aire bench checkpoint: the commands that are timed, and what is left behind."""

from __future__ import annotations

import json

import pytest

from aireprune.bench import checkpoint as bench
from aireprune.bench import mamba_checkpoint


@pytest.fixture
def timed(monkeypatch):
    """The commands that would be timed."""
    commands = []

    def make(folder, *size, **sizes):
        folder.mkdir(parents=True)

    def measure(source, command, workdir, repeats, progress):
        commands.append(command(source, workdir / "target"))
        progress("prune 1.00 s")
        return {
            "bytes": 2e9,
            "cp_seconds": [1.0] * repeats,
            "prune_seconds": [1.5] * repeats,
            "ratio": 1.5,
            "peak_rss_bytes": 3e8,
        }

    monkeypatch.setattr(mamba_checkpoint, "make_mamba_checkpoint", make)
    monkeypatch.setattr(bench, "bench_checkpoint", measure)
    return commands


def test_prune_beside_cp(aire, timed, tmp_path):
    code, out, err = aire("bench", "checkpoint", "--dir", tmp_path, "--layers", 2, "--repeats", 3, "--ratio", 0.25)
    assert code == 0
    assert "Pruning 2.00 GB on disk, 3 pairs" in out
    assert "time of prune / time of cp (median of pairs): 1.50" in out
    assert "prune 1.00 s" in err
    (command,) = timed
    source, target = str(tmp_path / "mamba-2-layers"), str(tmp_path / "target")
    assert command[1:] == ["-m", "aireprune", "prune", source, "-o", target, "--ratio", "0.25", "--json"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("timed")
def test_a_checkpoint_that_was_there_stays(aire, tmp_path):
    (tmp_path / "mamba-2-layers").mkdir()
    _, out, _ = aire("bench", "checkpoint", "--dir", tmp_path, "--layers", 2, "--repeats", 1, "--json")
    assert json.loads(out)["ratio"] == 1.5
    assert (tmp_path / "mamba-2-layers").is_dir()
