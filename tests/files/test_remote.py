"""Folders elsewhere: pruned like those on disk, with never more than a shard or two here."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from sharded_models import contents, make_sharded

import aireprune
from aireprune.errors import AireError
from aireprune.files import open_checkpoint, uploading
from aireprune.files.remote import RemoteShard
from aireprune.pruning.prune import prune_checkpoint
from aireprune.pruning.request import make_job
from aireprune.pruning.source import open_file


@pytest.fixture
def local(tmp_path):
    """The folder, and what pruning it on disk gives."""
    source = make_sharded(tmp_path / "in", layers=6, shards=4)
    aireprune.prune_file(source, tmp_path / "expected", ratio=0.5)
    return source


@pytest.fixture(params=["memory", "file"])
def away(request, local, tmp_path):
    """The same folder elsewhere, and a place to write to."""
    root = "memory://bucket" if request.param == "memory" else f"file://{tmp_path / 'bucket'}"
    filesystem, path = fsspec.core.url_to_fs(root)
    filesystem.put(str(local), f"{path}/in", recursive=True)
    yield root
    filesystem.rm(path, recursive=True)


def fetched(url, tmp_path):
    filesystem, path = fsspec.core.url_to_fs(url)
    filesystem.get(path, str(tmp_path / "fetched"), recursive=True)
    return contents(tmp_path / "fetched")


def same(ours, theirs):
    """All but the plan, which names its source."""
    assert ours.keys() == theirs.keys()
    assert all(ours[name] == theirs[name] for name in ours if name != "plan.json")


def test_from_elsewhere_to_elsewhere(away, tmp_path):
    plan = aireprune.prune_file(f"{away}/in", f"{away}/out", ratio=0.5)
    same(fetched(f"{away}/out", tmp_path), contents(tmp_path / "expected"))
    assert plan.source is None or "bucket/in" in plan.source
    with pytest.raises(AireError, match="out exists already"):
        aireprune.prune_file(f"{away}/in", f"{away}/out", ratio=0.5)
    aireprune.prune_file(f"{away}/in", f"{away}/out", ratio=0.5, overwrite=True)


def test_from_elsewhere_to_disk_and_back(away, local, tmp_path):
    aireprune.prune_file(f"{away}/in", tmp_path / "out", ratio=0.5)
    same(contents(tmp_path / "out"), contents(tmp_path / "expected"))
    aireprune.prune_file(local, f"{away}/sent", ratio=0.5)
    same(fetched(f"{away}/sent", tmp_path), contents(tmp_path / "expected"))


def test_a_failed_transfer_is_taken_up(away, tmp_path, monkeypatch):
    source, job, lines = f"{away}/in", make_job(None, {"ratio": 0.5, "resume": True}), []
    send = uploading.Elsewhere.send_file

    def break_down(self, path, name):
        if name.startswith("model-00003"):
            raise ConnectionResetError("the line is dead")
        send(self, path, name)

    with monkeypatch.context() as patched:
        patched.setattr(uploading.Elsewhere, "send_file", break_down)
        with pytest.raises(ConnectionResetError):
            prune_checkpoint(open_file(source), Path(f"{away}/out"), job)
    with pytest.raises(AireError, match="holds no checkpoint"):
        open_checkpoint(f"{away}/out")
    prune_checkpoint(open_file(source), Path(f"{away}/out"), job, report=lines.append)
    assert [line.split(":")[0] for line in lines] == ["shard 3 of 4 sent", "shard 4 of 4 sent"]
    same(fetched(f"{away}/out", tmp_path), contents(tmp_path / "expected"))


def everything(url):
    """Every file below a URL, hidden ones too."""
    filesystem, root = fsspec.core.url_to_fs(url)
    return {str(path)[len(root) :].lstrip("/"): filesystem.cat_file(path) for path in filesystem.find(root)}


def test_the_old_folder_stays_until_the_new_one_is_there(away, tmp_path, monkeypatch):
    aireprune.prune_file(f"{away}/in", f"{away}/out", ratio=0.25)
    before, send = everything(f"{away}/out"), uploading.Elsewhere.send_file

    def break_down(self, path, name):
        if name.startswith("model-00003"):
            raise ConnectionResetError("the line is dead")
        send(self, path, name)

    job, lines = make_job(None, {"ratio": 0.5, "resume": True}), []
    with monkeypatch.context() as patched:
        patched.setattr(uploading.Elsewhere, "send_file", break_down)
        with pytest.raises(ConnectionResetError):
            prune_checkpoint(open_file(f"{away}/in"), Path(f"{away}/out"), job, overwrite=True)
    assert everything(f"{away}/out") == before
    prune_checkpoint(open_file(f"{away}/in"), Path(f"{away}/out"), job, overwrite=True, report=lines.append)
    assert [line.split(":")[0] for line in lines] == ["shard 3 of 4 sent", "shard 4 of 4 sent"]
    same(fetched(f"{away}/out", tmp_path), contents(tmp_path / "expected"))
    assert {name.split("/")[0] for name in everything(away)} == {"in", "out"}


def test_a_folder_half_replaced_is_no_checkpoint(away, tmp_path, monkeypatch):
    aireprune.prune_file(f"{away}/in", f"{away}/out", ratio=0.25)
    filesystem = fsspec.core.url_to_fs(away)[0]
    move, moved = type(filesystem).mv, []

    def break_down(self, old, new, **options):
        moved.append(new)
        if len(moved) == 3:
            raise ConnectionResetError("the line is dead")
        move(self, old, new, **options)

    with monkeypatch.context() as patched:
        patched.setattr(type(filesystem), "mv", break_down)
        with pytest.raises(AireError, match="the line is dead"):
            aireprune.prune_file(f"{away}/in", f"{away}/out", ratio=0.5, overwrite=True)
    with pytest.raises(AireError, match="holds no checkpoint"):
        open_checkpoint(f"{away}/out")
    aireprune.prune_file(f"{away}/in", f"{away}/out", ratio=0.5, overwrite=True)
    same(fetched(f"{away}/out", tmp_path), contents(tmp_path / "expected"))
    assert {name.split("/")[0] for name in everything(away)} == {"in", "out"}


def test_a_whole_bucket_is_not_replaced(monkeypatch):
    monkeypatch.setattr(uploading, "ROOTED", ())
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file("/bucket/something", b"precious")
    with pytest.raises(AireError, match="memory://bucket is a whole bucket"):
        uploading.Elsewhere("memory://bucket", "").begin(uploading.ShardWork(), overwrite=True)
    filesystem.rm("/bucket", recursive=True)


def test_opening_reads_headers_alone(away, monkeypatch):
    monkeypatch.setattr(RemoteShard, "copy_edited", lambda *given: pytest.fail("a shard was fetched"))
    checkpoint = open_checkpoint(f"{away}/in")
    blocks = sum(path.stat().st_blocks for path in checkpoint.path.glob("*.safetensors"))
    size = sum(path.stat().st_size for path in checkpoint.path.glob("*.safetensors"))
    assert 512 * blocks < size
    assert checkpoint["backbone.layers.0.mixer.D"].shape == (32,)


def test_what_is_not_there(tmp_path):
    with pytest.raises(AireError, match="memory:///nothing"):
        open_checkpoint("memory://nothing")
    with pytest.raises(AireError, match="cannot be"):
        open_checkpoint("gopher://somewhere/model")
