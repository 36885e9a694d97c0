"""Links in checkpoints: they may lead to files of their folder or to the Hugging Face cache it is part of, no further.

A folder may come from anyone. Nothing else on the machine is read because a link in it points there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aireprune.errors import AireError, shown


def real(path: Path) -> Path:
    """Where a path leads, links followed; unlike Path.resolve, a circle of links is no error."""
    return Path(os.path.realpath(path))


def check_link(folder: Path, path: Path) -> None:
    """Refuse what is no plain file, and a link that leads out of the folder and its Hugging Face cache."""
    if not path.exists():
        raise AireError(f"{path} is a link to {shown(os.readlink(path))}, which does not exist.")
    if not stays_inside(folder, path):
        raise AireError(
            f"{path} is a link that leads out of the directory, to {real(path)}; put the file itself there."
        )
    if not path.is_file():
        raise AireError(f"{path} is no plain file; put the file itself there.")


def stays_inside(folder: Path, path: Path) -> bool:
    """Whether a path leads to a file in `folder`, or to the blobs of the Hugging Face cache it is part of."""
    inside, found = real(folder), real(path)
    if found.is_relative_to(inside):
        return True
    return inside.parent.name == "snapshots" and found.is_relative_to(inside.parent.parent / "blobs")


def refuse_own(sources: Iterable[Path], targets: Iterable[Path]) -> None:
    """Refuse to replace a file that is being read, whatever name either of them goes by."""
    read = list(sources)
    for target in targets:
        for source in read:
            both = target.exists() and source.exists()
            if real(target) == real(source) or (both and os.path.samefile(target, source)):
                raise AireError(
                    f"Writing {target} would replace part of the checkpoint that is read. Choose another output."
                )
