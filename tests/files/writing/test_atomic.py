"""Outputs that appear whole or not at all, beside others that appear at the same time and runs that were killed."""

import json
import logging
import os
import shutil
import signal
import threading

import pytest
from file_helpers import killed_child, listing

from aireprune.errors import AireError
from aireprune.files.signals import stopped_cleanly
from aireprune.files.writing import atomic, journal, rename
from aireprune.files.writing.atomic import atomic_folder, atomic_path, atomic_paths
from aireprune.files.writing.journal import journal_of
from aireprune.files.writing.temporaries import Temporary


@pytest.fixture(params=["renameat2", "link", "neither"])
def system(request, monkeypatch):
    """Linux; a system without renameat2; a file system without hard links on top."""

    def refuse(*_, **__):
        raise OSError(1, "Operation not permitted")

    if request.param != "renameat2":
        monkeypatch.setattr(rename, "_renameat2", lambda: None)
    if request.param == "neither":
        monkeypatch.setattr(os, "link", refuse)


def write_files(targets, text="new", overwrite=False, meanwhile=lambda: None):
    with atomic_paths(targets, overwrite) as temporaries:
        for path in temporaries:
            path.write_text(text)
        meanwhile()


def write_in_folder(target, name="new", overwrite=False, meanwhile=lambda: None):
    with atomic_folder(target, overwrite) as folder:
        (folder / name).write_text("x")
        meanwhile()


@pytest.mark.usefixtures("system")
class TestWithoutOverwrite:
    def test_a_file_that_appears_meanwhile_is_left_alone(self, tmp_path):
        target = tmp_path / "out"
        with pytest.raises(AireError, match="has appeared while this run was writing"):
            write_files([target], meanwhile=lambda: target.write_text("theirs"))
        assert listing(tmp_path) == ["out"]
        assert target.read_text() == "theirs"

    def test_a_folder_that_appears_meanwhile_is_left_alone(self, tmp_path):
        target = tmp_path / "out"
        with pytest.raises(AireError, match="has appeared while"):
            write_in_folder(target, meanwhile=lambda: (target.mkdir(), (target / "theirs").write_text("x")))
        assert listing(tmp_path) == ["out"]
        assert listing(target) == ["theirs"]

    def test_a_file_where_a_folder_should_be_is_left_alone(self, tmp_path):
        target = tmp_path / "out"
        with pytest.raises(AireError, match="has appeared while"):
            write_in_folder(target, meanwhile=lambda: target.write_text("theirs"))
        assert listing(tmp_path) == ["out"]
        assert target.read_text() == "theirs"

    def test_of_several_files_none_appears_if_one_is_taken(self, tmp_path):
        targets = [tmp_path / name for name in ("m.pt", "m.json", "m.plan.json")]
        with pytest.raises(AireError, match=r"m.json has appeared"):
            write_files(targets, meanwhile=lambda: targets[1].write_text("theirs"))
        assert listing(tmp_path) == ["m.json"]
        assert targets[1].read_text() == "theirs"

    def test_the_usual_case(self, tmp_path):
        write_files([tmp_path / "d" / "a", tmp_path / "d" / "b"])
        write_in_folder(tmp_path / "f", "x")
        assert listing(tmp_path) == ["d", "f"]
        assert listing(tmp_path / "d") == ["a", "b"]
        assert listing(tmp_path / "f") == ["x"]


@pytest.mark.usefixtures("system")
class TestOverwrite:
    def test_files_and_folders_are_replaced(self, tmp_path):
        for turn in ("old", "new"):
            write_files([tmp_path / "m.pt", tmp_path / "m.json"], turn, overwrite=True)
            write_in_folder(tmp_path / "f", turn, overwrite=True)
        assert listing(tmp_path) == ["f", "m.json", "m.pt"]
        assert listing(tmp_path / "f") == ["new"]
        assert {(tmp_path / name).read_text() for name in ("m.pt", "m.json")} == {"new"}

    def test_a_rename_that_fails_brings_everything_back(self, tmp_path, monkeypatch):
        targets = [tmp_path / name for name in ("m.pt", "m.json")]
        for target in targets:
            target.write_text("old")
        failed = []

        def fails_once(step):
            def call(source, target):
                if target == targets[1] and not failed:
                    failed.append(target)
                    raise OSError(5, "Input/output error")
                return step(source, target)

            return call

        monkeypatch.setattr(os, "rename", fails_once(os.rename))
        monkeypatch.setattr(journal, "exchange", fails_once(journal.exchange))
        with pytest.raises(AireError, match="Input/output error"):
            write_files(targets, overwrite=True)
        assert failed
        assert listing(tmp_path) == ["m.json", "m.pt"]
        assert {path.read_text() for path in targets} == {"old"}


def test_of_two_runs_at_once_one_succeeds(tmp_path):
    targets = [tmp_path / "m.pt", tmp_path / "m.json"]
    barrier = threading.Barrier(2)
    outcomes = []

    def run(text):
        try:
            write_files(targets, text, meanwhile=barrier.wait)
            outcomes.append(text)
        except AireError as problem:
            outcomes.append(str(problem))

    threads = [threading.Thread(target=run, args=(text,)) for text in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [outcome for outcome in outcomes if outcome in ("one", "two")]
    assert any("has appeared while" in outcome for outcome in outcomes)
    assert {path.read_text() for path in targets} == {winner}
    assert listing(tmp_path) == ["m.json", "m.pt"]


@pytest.mark.parametrize("folder", [False, True])
def test_temporaries_of_a_killed_run_are_removed_and_those_of_a_live_one_are_not(tmp_path, caplog, folder):
    target = tmp_path / "out"
    alive = Temporary(target, folder)
    killed_child(lambda: (Temporary(target, folder), os.kill(os.getpid(), signal.SIGKILL)))
    (tmp_path / ".out.old").write_text("not ours")
    (tmp_path / ".out2.12345678.tmp").write_text("not of this target")
    assert len(listing(tmp_path)) == 4
    with caplog.at_level(logging.WARNING), atomic_path(target) as new:
        new.write_text("x")
    assert "which a run that was killed had left behind" in caplog.text
    assert listing(tmp_path) == sorted([alive.path.name, ".out.old", ".out2.12345678.tmp", "out"])
    alive.discard()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_kill_between_two_renames_is_made_good_by_the_next_run(tmp_path, caplog, monkeypatch, overwrite):
    targets = [tmp_path / name for name in ("m.pt", "m.json", "m.plan.json")]
    if overwrite:
        for target in targets[:2]:
            target.write_text("old")

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def write():
        done = []
        for name in ("rename_new", "exchange"):
            step = getattr(journal, name)
            monkeypatch.setattr(journal, name, lambda *a, step=step: die() if done else (done.append(1), step(*a))[1])
        write_files(targets, overwrite=overwrite)

    killed_child(write)
    assert targets[0].read_text() == "new"
    assert not targets[2].exists()
    assert journal_of(targets[0]).exists()
    with caplog.at_level(logging.WARNING):
        journal.settle(targets[0])
    assert "its last step is now complete" in caplog.text
    assert listing(tmp_path) == ["m.json", "m.plan.json", "m.pt"]
    assert {path.read_text() for path in targets} == {"new"}


def test_what_a_killed_run_left_is_not_touched_if_it_was_copied_since(tmp_path, monkeypatch):
    targets = [tmp_path / "a" / name for name in ("m.pt", "m.json")]

    def write():
        monkeypatch.setattr(journal, "rename_new", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        write_files(targets)

    killed_child(write)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    before = listing(tmp_path / "b")
    with pytest.raises(AireError, match=r"copied or deleted since. Look at them, delete .m.pt.journal"):
        journal.settle(tmp_path / "b" / "m.pt")
    assert listing(tmp_path / "b") == before
    journal.settle(targets[0])
    assert listing(tmp_path / "a") == ["m.json", "m.pt"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"replace": true, "mov',
        b"[" * 100_000,
        b'{"moves": 3, "replace": 1}',
        json.dumps({"replace": True, "moves": [{"temporary": "x", "target": "m", "retired": "y", "new": 1}]}).encode(),
        json.dumps(
            {"replace": True, "moves": [{"temporary": "../x", "target": "../m", "retired": "y", "new": 1}]}
        ).encode(),
    ],
)
def test_a_journal_that_is_not_ours_moves_nothing(tmp_path, content):
    target = tmp_path / "m"
    target.write_text("old")
    (tmp_path / "x").write_text("x")
    journal_of(target).write_bytes(content)
    journal.settle(target)
    assert listing(tmp_path) == ["m", "x"]
    assert target.read_text() == "old"


def test_everything_is_synced_before_it_is_renamed(tmp_path, monkeypatch):
    events = []
    fsync, rename_new = os.fsync, atomic.rename_new

    def note_sync(descriptor):
        events.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(atomic, "rename_new", lambda *paths: (events.append("rename"), rename_new(*paths)))
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_text("x")
    written = [tmp_path / "out", tmp_path / "out" / "sub", tmp_path / "out" / "sub" / "a"]
    assert set(events[:-2]) == {path.stat().st_ino for path in written}
    assert events[-2:] == ["rename", tmp_path.stat().st_ino]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_being_told_to_stop_cleans_up(tmp_path, number, status):
    def run():
        signal.signal(number, signal.SIG_DFL)  # whatever the tests themselves were started with
        with stopped_cleanly(), atomic_folder(tmp_path / "new" / "out") as folder:
            (folder / "a").write_text("x")
            os.kill(os.getpid(), number)
            (folder / "b").write_text("never")

    assert killed_child(run) == status
    assert listing(tmp_path) == []
