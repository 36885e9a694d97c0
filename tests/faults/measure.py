"""What opening, reading and copying a file may end in, and how long and how much memory it may take.

The oracle of every test here: a file is accepted or refused with an AireError. Anything else is a fault.
"""

from __future__ import annotations

import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from faults.forks import in_fork

from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.files.writing.atomic import remove

SECONDS, SECONDS_PER_BYTE = 5.0, 2.0 / 100e6
STEPS, STEADY = 1_000_000, 0.02  # of a loop, and the seconds that they take on an idle core
MEMORY = 200e6
MESSAGE = 2000  # characters
MOST_READ = 1000  # tensors of a file


@dataclass(frozen=True)
class Outcome:
    """How one input ended: "accepted", "refused" or "traceback"; with the message, and what it took.

    Seconds are those of the processor, as an idle one, so that a busy machine does not count, and memory is in bytes.
    """

    kind: str
    message: str
    seconds: float
    memory: float
    size: int
    largest: int  # bytes of the largest tensor

    @property
    def slow(self) -> bool:
        return self.seconds > SECONDS + SECONDS_PER_BYTE * self.size

    @property
    def greedy(self) -> bool:
        return self.memory > MEMORY + 2 * self.largest

    @property
    def fault(self) -> str | None:
        """What is wrong, or None."""
        if self.kind == "traceback":
            return self.message
        if self.slow or self.greedy:
            return f"{self.kind} after {self.seconds:.1f} s with {self.memory / 1e6:.0f} MB"
        if not self.message.isprintable() or len(self.message) > MESSAGE:
            return f"a message that should not be shown: {self.message[:200]!r}"
        return None


def half(values: np.ndarray) -> np.ndarray:
    """The edit of every copy: every second row."""
    return values[::2] if values.ndim else values


def exercise(path: Path, scratch: Path) -> int:
    """Open, read its tensors, write an edited copy and read that; the bytes of the largest tensor."""
    checkpoint = open_checkpoint(path)
    found: dict[str, np.ndarray] = {}
    for name in islice(checkpoint.shapes, MOST_READ):
        try:
            found[name] = checkpoint[name]
        except AireError as problem:
            if "cannot be edited" not in str(problem):
                raise
    if checkpoint.kind == "torch":
        same_as_torch(path, found)
    edits = dict.fromkeys(islice(found, 2), half)
    target = scratch / (path.name if path.is_file() else "copy")
    try:
        checkpoint.write(target, edits, extras={"plan.json": "{}"})
        again = open_checkpoint(target)
        assert set(again.shapes) == set(checkpoint.shapes)
        for name, values in found.items():
            np.testing.assert_array_equal(again[name], half(values) if name in edits else values)
    finally:
        for made in scratch.iterdir():
            remove(made)
    return max((values.nbytes for values in found.values()), default=0)


def opened(path: Path, scratch: Path) -> int:
    """Open a file, and no more."""
    open_checkpoint(path)
    return 0


def same_as_torch(path: Path, found: dict[str, np.ndarray]) -> None:
    """What we accept, PyTorch reads as the same numbers, or not at all."""
    import torch

    from aireprune.files.torch.state import find_state, tensors

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = torch.load(path, weights_only=True)
    except Exception:
        return
    for key in find_state(state) or ():
        state = state[key]
    for where, tensor in tensors(state):
        name = ".".join(map(str, where))
        if name in found:
            plain = tensor.detach().resolve_conj().resolve_neg()
            values = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
            np.testing.assert_array_equal(found[name], values)


def measured(path: Path, scratch: Path, run: Callable[[Path, Path], int] = exercise) -> Outcome:
    """The outcome for a file or folder, in this process."""
    size = path.stat().st_size if path.is_file() else sum(p.lstat().st_size for p in path.rglob("*"))
    before = reset_peak()
    start = time.process_time()
    kind, message, largest = "accepted", "", 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            largest = run(path, scratch)
        except AireError as problem:
            kind, message = "refused", str(problem)
        except Exception:
            kind, message = "traceback", traceback.format_exc()
    seconds, memory = time.process_time() - start, peak() - before
    if seconds > SECONDS:
        seconds /= max(1.0, slowdown())
    return Outcome(kind, message, seconds, memory, size, largest)


def slowdown() -> float:
    """How many times longer the processor takes for a loop just now: a core whose other thread is busy counts less."""
    start = time.process_time()
    for _ in range(STEPS):
        pass
    return (time.process_time() - start) / STEADY


def in_child(path: Path, scratch: Path, run: Callable[[Path, Path], int] = exercise) -> Outcome:
    """The outcome in a process of its own, which may be killed by what it reads."""

    def limited() -> Outcome:
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        signal.alarm(120)
        return measured(path, scratch, run)

    outcome = in_fork(limited)
    if isinstance(outcome, Outcome):
        return outcome
    return Outcome("traceback", f"the process ended with {outcome}", 60.0, 0, 0, 0)


def reset_peak() -> float:
    """Forget the most memory used so far; the memory in use now, in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return peak()
    return _status("VmRSS")


def peak() -> float:
    """The most memory in use since the last reset, in bytes."""
    return _status("VmHWM")


def _status(field: str) -> float:
    """A figure of this process, where the system tells it."""
    if not Path("/proc/self/status").exists():
        return 0.0
    text = Path("/proc/self/status").read_text()
    return 1024.0 * int(text.split(f"{field}:")[1].split()[0])


def listing(folder: Path) -> dict[str, Any]:
    """Everything under a folder: names, and contents of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
