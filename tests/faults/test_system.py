"""A system that fails (no space, no permission), runs at the same time, and runs that are told to stop."""

import errno
import os
import resource
import signal
import time
from collections import Counter

import numpy as np
import pytest
from faults.crash import KINDS, Scenario, Write
from faults.forks import in_fork
from faults.measure import listing

import aireprune.files.flax.checkpoint
import aireprune.files.torch.checkpoint  # noqa: F401  (both before the first fork)
from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.files.signals import stopped_cleanly


@pytest.fixture(params=KINDS)
def writes(request, scratch):
    """A write to a new place and one over an old checkpoint."""
    found = []
    for overwrite in (False, True):
        folder = scratch / str(overwrite)
        folder.mkdir()
        found.append(Write(Scenario(request.param, overwrite, True), folder))
    return found


def attempt(write, disturb=lambda: None):
    """A function that writes and returns how it went, after `disturb`."""

    def run():
        disturb()
        try:
            write.run()
        except AireError as problem:
            return str(problem)
        return "written"

    return run


def refused(write, sentences, disturb):
    """A write in a child in which `disturb` was called first must fail with a sentence and change nothing."""
    outcome = in_fork(attempt(write, disturb))
    assert any(sentence in outcome for sentence in sentences), outcome
    assert listing(write.folder) == write.before


def raising(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("function", ["pwrite", "fsync", "copy_file_range", "mkdir"])
def test_a_full_disk_leaves_nothing_behind(writes, function):
    for write in writes:
        used = {"pwrite": ("safetensors", "folder"), "copy_file_range": ("safetensors", "flax", "folder"),
                "mkdir": ("folder", "own")}.get(function, KINDS)  # fmt: skip
        if write.scenario.kind in used:
            refused(write, ["No space left on device"], lambda: setattr(os, function, raising(errno.ENOSPC)))


def test_no_inodes(writes):
    opened = os.open

    def full(path, flags, *rest, **named):
        return raising(errno.ENOSPC)() if flags & os.O_CREAT else opened(path, flags, *rest, **named)

    for write in writes:
        if write.scenario.kind not in ("folder", "own"):
            refused(write, ["No space left on device"], lambda: setattr(os, "open", full))


def test_a_limit_on_file_sizes(writes):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))  # noqa: E731
    for write in writes:
        refused(write, ["File too large", "the disk may be full"], limit)


def test_a_folder_that_cannot_be_written_to(writes):
    def unprivileged():
        os.setuid(65534) if os.getuid() == 0 else None

    for write in writes:
        os.chmod(write.folder.parent, 0o755)
        write.target.parent.mkdir(exist_ok=True)
        write.before = listing(write.folder)
        os.chmod(write.target.parent, 0o555)
        refused(write, ["Permission denied"], unprivileged)
        os.chmod(write.target.parent, 0o755)


@pytest.mark.parametrize("kind", ["safetensors", "torch", "folder"])
def test_two_processes_at_once(kind, scratch):
    for turn in range(5):
        folder = scratch / str(turn)
        folder.mkdir()
        write = Write(Scenario(kind, False, True), folder)
        outcomes = Counter(in_fork(attempt(write), attempt(write)))
        assert outcomes.pop("written") == 1
        (problem,) = outcomes
        assert "has appeared while" in problem or "exists already" in problem
        assert write.state() == "new"
        assert not list(folder.rglob(".*"))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("kind", ["safetensors", "torch", "flax", "folder"])
def test_being_told_to_stop(kind, number, status, scratch):
    write = Write(Scenario(kind, True, True), scratch)
    began = scratch / "began"

    def slow(values):
        began.write_text("")
        time.sleep(2)
        return values

    def run():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background processes ignore it
        for other in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_DFL)
        try:
            with stopped_cleanly():
                open_checkpoint(write.source).write(write.target, {"w": slow}, {}, {"plan.json": "{}"}, overwrite=True)
        except KeyboardInterrupt:
            return 130
        except SystemExit as stop:
            return stop.code
        return 0

    def stop(child):
        while not began.exists():
            time.sleep(0.01)
        began.unlink()
        os.kill(child, number)

    assert in_fork(run, meanwhile=stop) == status
    assert listing(scratch) == write.before


def test_values_that_are_not_finite_are_not_written(writes):
    for write in writes:
        if write.scenario.kind != "own":
            checkpoint = open_checkpoint(write.source)
            with pytest.raises(AireError, match=r"tensor w would get 12 values that are not finite"):
                checkpoint.write(write.target, {"w": lambda values: values * np.nan}, overwrite=True)
            assert listing(write.folder) == write.before
