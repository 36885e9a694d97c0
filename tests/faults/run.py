"""The long run: many inputs for every reader, all hostile files, a kill at every event. Ends with a table.

python tests/faults/run.py --inputs 100000 --seed 1
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults import hostile
from faults.crash import SCENARIOS, crash_points, numbered
from faults.forks import in_fork
from faults.fuzz import Tally, fuzz
from faults.inputs import READERS
from faults.measure import exercise, in_child, opened

import aireprune.files.flax.checkpoint
import aireprune.files.folder
import aireprune.files.torch.checkpoint  # noqa: F401  (all before the first fork)

CHUNK = 500  # inputs per process
ROW = "| {:<26} | {:>7} | {:>8} | {:>8} | {:>10} | {:>4} | {:>12} | {:>12} |"


def main() -> int:
    """Run everything; the exit status is 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="inputs in all, shared by the readers")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable()
    began = time.monotonic()
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        tallies = [_fuzzed(reader, given.seed, -(-given.inputs // len(READERS)), folder) for reader in READERS]
        tallies.append(_hostile(folder))
        kills, broken = _killed(folder)
    finally:
        shutil.rmtree(folder)
    print(ROW.format("reader", "inputs", "accepted", "refused", "tracebacks", "slow", "slowest, s", "memory, MB"))
    print(ROW.format("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:"))
    for tally in tallies:
        print(_row(tally))
    print(_row(_sum(tallies)))
    for tally in tallies:
        for number, fault in list(tally.faults.items())[:5]:
            print(f"\n{tally.reader}, input {number}: {fault}")
    print(
        f"\nKilled at {kills} file-system events of {2 * len(SCENARIOS)} writes: {len(broken)} lost or not recovered."
    )
    print(*broken, sep="\n")
    print(f"Seed {given.seed}, {time.monotonic() - began:.0f} s.")
    return 1 if broken or any(tally.faults for tally in tallies) else 0


def _fuzzed(reader: str, seed: int, inputs: int, folder: Path) -> Tally:
    """All inputs of a reader, some at a time in a process of their own."""
    total = Tally(reader)
    for first, scratch in zip(range(0, inputs, CHUNK), numbered(_new(folder / reader)), strict=False):
        numbers = range(first, min(first + CHUNK, inputs))
        part = in_fork(lambda numbers=numbers, scratch=scratch: fuzz(reader, seed, numbers, scratch))
        if not isinstance(part, Tally):
            part = Tally(reader, tracebacks=len(numbers), faults={first: f"the process ended with {part}"})
        total = _sum([total, part], reader)
        shutil.rmtree(scratch)
    return total


def _hostile(folder: Path) -> Tally:
    total = Tally("files made to do harm")
    for number, path in enumerate(_hostile_paths(_new(folder / "hostile"))):
        scratch = _new(folder / f"scratch {number}")
        total.add(number, in_child(path, scratch, opened if path.name in hostile.OPENED_ONLY else exercise))
    return total


def _hostile_paths(folder: Path) -> Iterator[Path]:
    for name, content in hostile.FILES.items():
        (folder / name).write_bytes(content())
        yield folder / name
        (folder / name).unlink()
    for name, make in hostile.FOLDERS.items():
        yield make(folder / name)


def _killed(folder: Path) -> tuple[int, list[str]]:
    kills, broken = 0, []
    folders = numbered(_new(folder / "kills"))
    for scenario in SCENARIOS:
        for then_open in (True, False):
            try:
                kills += crash_points(scenario, folders, 1, then_open)
            except AssertionError as problem:
                broken.append(str(problem))
    return kills, broken


def _new(folder: Path) -> Path:
    os.mkdir(folder)
    return folder


def _sum(tallies: list[Tally], reader: str = "all") -> Tally:
    total = Tally(reader)
    for tally in tallies:
        for name in (field.name for field in fields(Tally) if field.name != "reader"):
            one, other = getattr(total, name), getattr(tally, name)
            joined = (
                one | other if name == "faults" else max(one, other) if name in ("slowest", "memory") else one + other
            )
            setattr(total, name, joined)
    return total


def _row(tally: Tally) -> str:
    inputs = tally.accepted + tally.refused + tally.tracebacks
    took = (f"{tally.slowest:.2f}", f"{tally.memory / 1e6:.0f}")
    return ROW.format(tally.reader, inputs, tally.accepted, tally.refused, tally.tracebacks, tally.slow, *took)


if __name__ == "__main__":
    sys.exit(main())
