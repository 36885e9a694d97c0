"""Several renames that happen together, even if the process is killed between them.

Before the first rename, a journal beside the target lists all of them. A run that is killed leaves it there, and the
next one that writes to the target or opens it completes what the journal lists. The journal is also the lock that lets
two runs rename one after the other. What was done already is seen from the files themselves, by their inode.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from aireprune.errors import AireError, shown
from aireprune.files.writing.rename import exchange, rename_new
from aireprune.files.writing.sync import sync_folder
from aireprune.files.writing.temporaries import Temporary, hidden, is_hidden_name, remove, same_file

log = logging.getLogger("aireprune.files")
LONGEST = 1 << 20  # bytes of a journal


@dataclass(frozen=True, kw_only=True)
class Move:
    """A file or folder `temporary` that becomes `target`; names in one folder. `new` is its inode."""

    temporary: str
    target: str
    retired: str  # where an old target goes meanwhile, if the two cannot swap places
    new: int


@dataclass(frozen=True)
class Renames:
    """The renames of one run in one folder; `replace` allows targets to exist."""

    folder: Path
    moves: tuple[Move, ...]
    replace: bool

    def do(self) -> None:
        """Do what is still to do. FileExistsError if a target exists that must not."""
        for move in self.moves:
            temporary, target, retired = self._paths(move)
            if _inode(temporary) != move.new or _inode(target) == move.new:
                continue
            if not self.replace:
                rename_new(temporary, target)
            elif not os.path.lexists(target):
                os.rename(temporary, target)
            elif not exchange(temporary, target):
                os.rename(target, retired)
                os.rename(temporary, target)
        sync_folder(self.folder)

    def undo(self) -> None:
        """Put everything back as it was."""
        for move in reversed(self.moves):
            temporary, target, retired = self._paths(move)
            if _inode(target) == move.new == _inode(temporary):  # two links to one file
                os.unlink(target)
            elif _inode(target) == move.new and not (os.path.lexists(temporary) and exchange(temporary, target)):
                os.rename(target, temporary)
            if os.path.lexists(retired):
                os.rename(retired, target)
        sync_folder(self.folder)

    def known(self) -> bool:
        """Whether every new file is still where a killed run can have left it."""
        return all(move.new in map(_inode, self._paths(move)[:2]) for move in self.moves)

    def clean(self) -> None:
        """Delete what was replaced."""
        for move in self.moves:
            temporary, _, retired = self._paths(move)
            remove(temporary)
            remove(retired)

    def _paths(self, move: Move) -> tuple[Path, Path, Path]:
        return self.folder / move.temporary, self.folder / move.target, self.folder / move.retired


def rename_together(temporaries: Sequence[Temporary], targets: Sequence[Path], replace: bool) -> None:
    """Rename every temporary to its target: all of them, or none. All stand in one folder."""
    moves = tuple(_move(one.path, target) for one, target in zip(temporaries, targets, strict=True))
    renames = Renames(targets[0].parent, moves, replace)
    with _locked(journal_of(targets[0]), os.O_CREAT) as descriptor:
        _complete(descriptor, targets[0])
        for temporary in temporaries:
            temporary.owned = False
        _record(descriptor, renames)
        try:
            renames.do()
        except BaseException:
            renames.undo()
            renames.clean()
            _forget(targets[0])
            raise
        renames.clean()
        _forget(targets[0])


def settle(target: Path) -> None:
    """Complete what a killed run has begun to rename to `target`, and say so. Nothing to do is the usual case."""
    journal = journal_of(target)
    if not os.path.lexists(journal):
        return
    try:
        with _locked(journal) as descriptor:
            _complete(descriptor, target)
            _forget(target)
    except FileNotFoundError:  # its own run, which was still at work, has finished
        return
    except OSError as error:
        raise AireError(
            f"A run that was killed has left {target} half replaced, and this cannot be completed "
            f"({error.strerror or error}); make its folder writable and try again, or delete {journal.name} in it."
        ) from error


def journal_of(target: Path) -> Path:
    """Where the journal of a target is."""
    return target.parent / f".{target.name}.journal"


@contextmanager
def _locked(journal: Path, create: int = 0) -> Iterator[int]:
    """The journal opened and locked; waits for another run that is renaming right now."""
    while True:
        descriptor = os.open(journal, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | create, 0o666)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if same_file(descriptor, journal):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _record(descriptor: int, renames: Renames) -> None:
    text = json.dumps({"replace": renames.replace, "moves": [asdict(move) for move in renames.moves]})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
    os.fsync(descriptor)
    sync_folder(renames.folder)


def _forget(target: Path) -> None:
    journal_of(target).unlink(missing_ok=True)
    sync_folder(target.parent)


def _complete(descriptor: int, target: Path) -> None:
    renames = _read(descriptor, target)
    if renames is None:
        return
    if not renames.known():
        raise AireError(
            f"A run that was killed has left {target} half replaced, and its files were copied or deleted since. "
            f"Look at them, delete {journal_of(target).name} beside it, and write the output again."
        )
    try:
        renames.do()
    except FileExistsError:
        renames.undo()
        outcome = "was undone, as another file has appeared meanwhile"
    else:
        outcome = "is now complete"
    renames.clean()
    log.warning("A run that was killed had begun to write %s; its last step %s.", shown(target), outcome)


def _read(descriptor: int, target: Path) -> Renames | None:
    """The renames in a journal. None if it has none: then it was not finished, and no rename had begun."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    try:
        raw = json.loads(os.pread(descriptor, LONGEST, 0))
        moves = tuple(Move(**move) for move in raw["moves"])
        renames = Renames(target.parent, moves, raw["replace"] is True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return renames if all(_is_ours(move, target) for move in moves) else None


def _is_ours(move: Move, target: Path) -> bool:
    """A journal may come from anyone: it may only name NAME.* in its folder, and temporaries of ours."""
    names = (move.temporary, move.target, move.retired)
    if not all(isinstance(name, str) and "/" not in name and "\0" not in name for name in names):
        return False
    ours = all(is_hidden_name(name, move.target) for name in (move.temporary, move.retired))
    return ours and move.target.startswith(target.stem) and isinstance(move.new, int)


def _move(temporary: Path, target: Path) -> Move:
    retired = hidden(target, "old").name
    return Move(temporary=temporary.name, target=target.name, retired=retired, new=temporary.lstat().st_ino)


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None
