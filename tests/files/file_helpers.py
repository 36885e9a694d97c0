"""What the tests of files share."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def safetensors_bytes(header: Any, data: bytes) -> bytes:
    """A safetensors file with any header, however wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def half(values: np.ndarray) -> np.ndarray:
    """The edit most tests use: every second row."""
    return values[::2]


def failing(values: np.ndarray) -> np.ndarray:
    raise RuntimeError("an edit that fails")


def killed_child(run: Callable[[], Any]) -> int:
    """Run something in a child process that ends itself; its exit status, or minus the signal that ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where other threads exist
        child = os.fork()
    if child == 0:
        status = 99
        try:
            run()
        except SystemExit as stop:
            status = int(stop.code or 0)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
