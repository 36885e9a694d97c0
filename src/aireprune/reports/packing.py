"""The document as JSON that may stand inside a page: arrays as base64, and no character that HTML could take for a tag."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

KINDS = {"float64": "f8", "float32": "f4", "uint32": "u4"}
UNSAFE = {ord(one): f"\\u{ord(one):04x}" for one in "<>&"}


def script_json(document: Any) -> str:
    """JSON of dataclasses, mappings, sequences and arrays; it means the same and is inert inside <script>."""
    return json.dumps(plain(document), allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def plain(value: Any) -> Any:
    """What JSON has: arrays become {kind: base64}, numbers that are not finite become null outside of arrays."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return packed(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def packed(values: np.ndarray) -> dict[str, str]:
    """An array as its bytes, little-endian, under the name of its kind of number."""
    kind = KINDS[values.dtype.name]
    return {kind: base64.b64encode(np.ascontiguousarray(values, f"<{kind}").tobytes()).decode()}
