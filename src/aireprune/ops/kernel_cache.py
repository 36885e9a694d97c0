"""`numba.njit` for kernels, with compiled code kept on disk as long as no kernel module changes.

Numba's own cache looks only at the file of the function it compiles: after an upgrade that changed a module the function
calls into, it would go on running the old code. So all kernels are kept in a folder named after their sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

from aireprune.caches import cache_folder

_HERE = Path(__file__).parent


@cache
def _folder() -> str:
    """Where this version's compiled code is: beside the modules, as numba does it, or where that cannot be written, in
    the user's cache."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_HERE.glob("*.py")):
        digest.update(path.read_bytes())
    beside, name = _HERE / "__pycache__", f"kernels-{digest.hexdigest()}"
    if not os.access(beside if beside.is_dir() else _HERE, os.W_OK):
        return str(cache_folder() / name)
    for old in beside.glob("kernels-*"):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)
    return str(beside / name)


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: `numba.njit` with these options, cached."""

    def decorate(function: Callable[..., Any]) -> Any:
        settings: Any = numba.config
        chosen = settings.CACHE_DIR  # the user's, if there is one
        settings.CACHE_DIR = chosen or _folder()
        try:
            return numba.njit(cache=True, **options)(function)
        finally:
            settings.CACHE_DIR = chosen

    return decorate
