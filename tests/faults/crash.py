"""Runs that are killed at every file-system event of a write, and what is found afterwards.

A child process writes a checkpoint and kills itself at the n-th event: before a file is created, written, synced,
renamed, linked or deleted. Whatever n is, the source must be untouched, the target must be the old or the new one in
all its parts, and the next run must succeed and leave nothing behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from faults.forks import in_fork
from faults.measure import half, listing

from aireprune.errors import AireError
from aireprune.files import open_checkpoint, write_folder
from aireprune.files.writing import copying, rename

PATCHED = ("fsync", "pwrite", "ftruncate", "copy_file_range", "write")
AUDITED = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "os.chmod")
TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT
VALUES = np.arange(12, dtype=np.float32).reshape(6, 2)


@dataclass(frozen=True)
class Scenario:
    """A checkpoint of one kind that is written over an old one or to a new place, with or without renameat2."""

    kind: str
    overwrite: bool
    linux: bool

    def __str__(self) -> str:
        return f"{self.kind}, {'over an old one' if self.overwrite else 'new'}{'' if self.linux else ', no renameat2'}"


KINDS = ("safetensors", "torch", "flax", "folder", "own")
SCENARIOS = [
    Scenario(kind, overwrite, linux) for kind in KINDS for overwrite in (False, True) for linux in (True, False)
]


class Write:
    """One scenario in an empty folder."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        suffix = {"safetensors": ".safetensors", "torch": ".pt", "flax": ".msgpack"}.get(scenario.kind, "")
        self.source, self.target = folder / f"source{suffix}", folder / "out" / f"target{suffix}"
        _make(scenario.kind, self.source)
        if scenario.overwrite:
            self._write("old", lambda values: values + 1)
        self.before = listing(folder)

    def run(self) -> None:
        """The write that is killed."""
        self._write("new", half, self.scenario.overwrite)

    def _write(self, word: str, edit: Callable[[np.ndarray], np.ndarray], overwrite: bool = False) -> None:
        config, extras = {"word": word}, {"plan.json": json.dumps({"word": word})}
        if self.scenario.kind == "own":
            write_folder(self.target, {"w": edit(VALUES)}, config, extras, overwrite)
        else:
            open_checkpoint(self.source).write(self.target, {"w": edit}, config, extras, overwrite)

    def state(self) -> str | None:
        """The word that all parts of the target agree on; None if there is none of it."""
        if not any((self.folder / "out").iterdir() if (self.folder / "out").exists() else ()):
            return None
        checkpoint = open_checkpoint(self.target)
        values = {"old": VALUES + 1, "new": half(VALUES)}[checkpoint.config["word"]]
        np.testing.assert_array_equal(checkpoint["w"], values)
        inside = self.target.is_dir()
        plan = self.target / "plan.json" if inside else self.target.with_suffix(".plan.json")
        assert json.loads(plan.read_text()) == {"word": checkpoint.config["word"]}
        return str(checkpoint.config["word"])


def _make(kind: str, path: Path) -> None:
    if kind == "safetensors":
        from safetensors.numpy import save_file

        save_file({"w": VALUES, "v": VALUES}, path)
    elif kind == "torch":
        import torch

        torch.save({"w": torch.from_numpy(VALUES.copy()), "v": torch.from_numpy(VALUES.copy())}, path)
    elif kind == "flax":
        import msgpack

        packed = msgpack.ExtType(1, msgpack.packb((VALUES.shape, "float32", VALUES.tobytes())))
        path.write_bytes(msgpack.packb({"w": packed, "v": packed}))
    elif kind == "folder":
        from safetensors.numpy import save_file

        path.mkdir()
        for name in ("w", "v"):
            save_file({name: VALUES}, path / f"{name}.safetensors")
        index = {"weight_map": {name: f"{name}.safetensors" for name in ("w", "v")}}
        (path / "model.safetensors.index.json").write_text(json.dumps(index))
        (path / "tokenizer.json").write_text("{}")


def killed_at(write: Write, number: int) -> bool:
    """Run a write in a child that kills itself before event `number`; False if it has finished before that."""

    def run() -> str:
        if not write.scenario.linux:
            rename._renameat2 = lambda: None  # type: ignore[assignment]
        _kill_at(number)
        write.run()
        return "finished"

    outcome = in_fork(run)
    assert outcome in ("finished", -signal.SIGKILL), f"the write failed instead of being killed: {outcome}"
    return outcome != "finished"


def _kill_at(number: int) -> None:
    left = iter(range(number))

    def event() -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(name: str, arguments: tuple[Any, ...]) -> None:
        if name in AUDITED or (name == "open" and isinstance(arguments[2], int) and arguments[2] & TO_WRITE):
            event()

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            event()
            return function(*arguments)

        return call

    for name in PATCHED:
        if hasattr(os, name):
            setattr(os, name, counted(getattr(os, name)))
    assert copying.os is os
    renameat2 = rename._renameat2()
    if renameat2 is not None:
        rename._renameat2 = lambda: counted(renameat2)  # type: ignore[assignment]
    sys.addaudithook(audit)


def check(write: Write, then_open: bool) -> None:
    """What must hold after a kill. `then_open`: the target is opened before the next run, else it is written first."""
    now = listing(write.folder)
    source = {name: content for name, content in write.before.items() if not name.startswith("out")}
    assert {name: content for name, content in now.items() if not name.startswith("out")} == source
    if then_open:
        allowed = ("old", "new") if write.scenario.overwrite else (None, "new")
        state = _state_or_nothing(write)
        assert state in allowed, state
    try:
        write.run()
    except AireError as problem:
        if write.scenario.overwrite or "exists already" not in str(problem):
            raise
    assert write.state() == "new"
    left = [path.name for path in write.folder.rglob(".*")]
    assert not left, left


def _state_or_nothing(write: Write) -> str | None:
    """The state as somebody finds it who opens the target."""
    try:
        return write.state()
    except AireError as problem:
        if "does not exist" not in str(problem):
            raise
        return None


def numbered(folder: Path) -> Iterator[Path]:
    """New empty folders, without end."""
    for number in count():
        (folder / str(number)).mkdir()
        yield folder / str(number)


def crash_points(scenario: Scenario, folders: Iterator[Path], step: int = 1, then_open: bool = True) -> int:
    """Kill a write at every `step`-th event; how many kills that were."""
    number = 0
    while True:
        write = Write(scenario, next(folders))
        if not killed_at(write, number):
            check(write, then_open)
            return number // step
        try:
            check(write, then_open)
        except Exception as problem:
            raise AssertionError(f"{scenario}: killed at event {number}: {problem}") from problem
        number += step
