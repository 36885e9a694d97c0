"""Outputs appear whole or not at all: written beside their place, then renamed.

Whatever goes wrong on the way (a full disk, an edit that raises, Ctrl-C) leaves nothing behind, and what the target
held before is still there. A run that is killed leaves at most temporaries and a journal; the next run on the same
target deletes the former and completes the latter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aireprune.errors import AireError
from aireprune.files.writing.journal import rename_together, settle
from aireprune.files.writing.rename import exchange, rename_new
from aireprune.files.writing.sync import sync, sync_folder
from aireprune.files.writing.temporaries import Temporary, remove, sweep
from aireprune.zoo import PREFIX

__all__ = ["atomic_folder", "atomic_path", "atomic_paths", "explained", "refuse_existing", "remove"]


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield an empty temporary file beside `target`; it becomes `target` on success, else it vanishes."""
    with atomic_paths([target], overwrite=True) as (temporary,):
        yield temporary


@contextmanager
def atomic_paths(targets: Sequence[Path], overwrite: bool = False) -> Iterator[list[Path]]:
    """The same for several files of one folder that belong together: all of them appear, or none does."""
    with explained(targets[0]):
        settle(targets[0])
        for target in targets:
            if target.is_dir():
                raise AireError(f"{target} is a directory, but a file has to be written there. Choose another output.")
            refuse_existing(target, overwrite)
    with _written(targets, False, overwrite) as temporaries:
        yield temporaries


@contextmanager
def atomic_folder(target: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a new temporary folder that becomes `target` on success. One that exists needs `overwrite`."""
    settle(target)
    refuse_existing(target, overwrite)
    with _written([target], True, overwrite) as (temporary,):
        yield temporary


def refuse_existing(target: Path, overwrite: bool) -> None:
    """An existing target is an error unless `overwrite`, and one that would take the place of a model of the zoo always."""
    if str(target).startswith(PREFIX):
        raise AireError(f"{target} cannot be an output: {PREFIX} stands for models that come with aireprune.")
    if os.path.lexists(target) and not overwrite:
        raise AireError(
            f"{target} exists already. Choose another output, or allow it to be replaced with overwrite=True."
        )


@contextmanager
def explained(target: Path) -> Iterator[None]:
    """A failure of the system while writing (disk full, no permission) as one sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise AireError(f"Writing {target} failed ({reason}); nothing was left behind.") from error


@contextmanager
def _written(targets: Sequence[Path], folder: bool, overwrite: bool) -> Iterator[list[Path]]:
    """Temporaries beside the targets, which become the targets on success."""
    with explained(targets[0]), _parents(targets[0]), ExitStack() as stack:
        temporaries: list[Temporary] = []
        for target in targets:
            sweep(target)
            temporaries.append(Temporary(target, folder))
            stack.callback(temporaries[-1].discard)
        yield [temporary.path for temporary in temporaries]
        for temporary in temporaries:
            sync(temporary.path)
        try:
            _rename(temporaries, targets, overwrite)
        except FileExistsError:
            raise AireError(
                f"{_first_existing(targets)} has appeared while this run was writing, and is left as it is. "
                "Choose another output, or allow it to be replaced with overwrite=True."
            ) from None


def _rename(temporaries: Sequence[Temporary], targets: Sequence[Path], overwrite: bool) -> None:
    """Move every temporary to its target, in one step where the system has one."""
    if len(targets) > 1:
        rename_together(temporaries, targets, overwrite)
        return
    temporary, target = temporaries[0].path, targets[0]
    if not overwrite:
        rename_new(temporary, target)
    elif not temporary.is_dir():
        os.replace(temporary, target)
    elif not (os.path.lexists(target) and exchange(temporary, target)):
        rename_together(temporaries, targets, overwrite)
        return
    sync_folder(target.parent)


def _first_existing(targets: Sequence[Path]) -> Path:
    return next((target for target in targets if os.path.lexists(target)), targets[0])


@contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Make the folders above `target`; those that were made go again if the work fails."""
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
        for folder in missing:
            sync_folder(folder.parent)
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise
