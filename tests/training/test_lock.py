"""Locks of folders: one at a time, also after one that was killed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from aireprune.errors import AireError
from aireprune.training.lock import locked

HOLD = """
import sys, time
from pathlib import Path
from aireprune.training.lock import locked
with locked(Path(sys.argv[1]), "sweep"):
    print("in", flush=True)
    time.sleep(60)
"""


def test_one_at_a_time(tmp_path):
    folder = tmp_path / "new" / "folder"
    with locked(folder, "sweep"):
        sentence = r"Another sweep is running in .*new/folder\. Wait for it"
        with pytest.raises(AireError, match=sentence), locked(folder, "sweep"):
            pytest.fail("two are in the folder")
        with locked(tmp_path / "other", "sweep"):
            pass
        with pytest.raises(AireError, match="Another sweep"), locked(folder, "sweep"):
            pytest.fail("the refused one unlocked the folder")
    with locked(folder, "sweep"):
        pass
    assert list(folder.iterdir()) == []


def test_a_failure_unlocks(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path, "run"):
        raise ZeroDivisionError
    with locked(tmp_path, "run"):
        pass


def test_a_killed_process_locks_nobody_out(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "in\n"
        with pytest.raises(AireError, match="Another sweep"), locked(tmp_path, "sweep"):
            pytest.fail("two processes are in the folder")
        holder.kill()
    assert list(tmp_path.iterdir())
    with locked(tmp_path, "sweep"):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AireError, match="file cannot be written to"), locked(tmp_path / "file", "run"):
        pass


def test_a_folder_that_was_made_for_nothing_goes_again(tmp_path):
    def fail(folder):
        with locked(folder, "training"):
            raise KeyError

    with pytest.raises(KeyError):
        fail(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    with pytest.raises(KeyError):
        fail(tmp_path / "old")
    assert (tmp_path / "old").is_dir()
