"""What the tests of files share."""

from __future__ import annotations

import json
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
