"""What a shell may complete: names that the package knows. Files are left to the shell."""

from __future__ import annotations

from collections.abc import Iterable


def checkpoints(incomplete: str) -> list[str]:
    """Models that come with the package, once a name begins like one."""
    from aireprune.zoo import PREFIX, names

    return _starting(incomplete, [PREFIX + name for name in names()]) if incomplete else []


def methods(incomplete: str) -> list[str]:
    from aireprune.method.methods import METHODS

    return _starting(incomplete, METHODS)


def targets(incomplete: str) -> list[str]:
    from aireprune.pruning.targets import TARGETS

    return _starting(incomplete, TARGETS)


def tasks(incomplete: str) -> list[str]:
    from aireprune.tasks import TASKS

    return _starting(incomplete, TASKS)


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
