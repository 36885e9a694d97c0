"""Shards of large checkpoints: a killed run goes on with the next one, and ends like one that was not killed."""

from __future__ import annotations

import os
import signal

import pytest
from file_helpers import killed_child
from sharded_models import contents, make_sharded

import aireprune
from aireprune.errors import AireError
from aireprune.files import shards
from aireprune.files.shards import Shard, write_on_node
from aireprune.pruning.prune import prune_checkpoint
from aireprune.pruning.request import make_job
from aireprune.pruning.source import open_file


@pytest.fixture
def source(tmp_path):
    return make_sharded(tmp_path / "in")


def prune(source, target, **choices):
    """Every line that is reported."""
    lines = []
    prune_checkpoint(open_file(source), target, make_job(None, {"ratio": 0.5, **choices}), report=lines.append)
    return lines


def test_a_killed_run_goes_on_with_the_next_shard(source, tmp_path, monkeypatch):
    prune(source, tmp_path / "straight")
    finish = shards.Kept.finish

    def stop(kept, name, size):
        finish(kept, name, size)
        if name.startswith("model-00003"):
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(shards.Kept, "finish", stop)
    assert killed_child(lambda: prune(source, tmp_path / "out", resume=True)) == -signal.SIGKILL
    monkeypatch.setattr(shards.Kept, "finish", finish)
    assert not (tmp_path / "out").exists()
    lines = prune(source, tmp_path / "out", resume=True)
    assert lines[0].startswith("shard 4 of 8 written: model-00004")
    assert len(lines) == 5
    assert contents(tmp_path / "out") == contents(tmp_path / "straight")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "straight"]


def test_shards_of_another_plan_are_not_taken_up(source, tmp_path, monkeypatch):
    def full(kept, name, size):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shards.Kept, "move_to", lambda kept, folder, names: full(kept, "", None))
        with pytest.raises(AireError, match="No space left"):
            prune(source, tmp_path / "out", resume=True)
    assert len(list((tmp_path / ".out.shards").glob("*.safetensors"))) == 8
    assert len(prune(source, tmp_path / "out", resume=True, ratio=0.25)) == 8
    prune(source, tmp_path / "straight", ratio=0.25)
    assert contents(tmp_path / "out") == contents(tmp_path / "straight")


def test_a_damaged_note_is_a_missing_shard(source, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(shards.Kept, "move_to", lambda kept, folder, names: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prune(source, tmp_path / "out", resume=True)
    (tmp_path / ".out.shards" / "model-00002-of-00008.safetensors.size").write_text('[12, "')
    (tmp_path / ".out.shards" / "model-00005-of-00008.safetensors").unlink()
    assert len(prune(source, tmp_path / "out", resume=True)) == 2
    assert aireprune.inspect(tmp_path / "out")


def test_a_node_without_the_folder_says_so(source, tmp_path):
    weights = open_file(source).checkpoint._shards["model-00001-of-00008.safetensors"]
    with pytest.raises(AireError, match=r"elsewhere is not there on .*a disk that all nodes have"):
        write_on_node(Shard(weights, {}), tmp_path / "elsewhere")
