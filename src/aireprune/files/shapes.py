"""Shapes as files claim them: checked before anything is computed from them or sized by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST_AXES = 32  # what every version of NumPy can hold
MOST = 2**60  # elements; fewer than 2**63 bytes whatever the type


def is_shape(value: Any) -> bool:
    """Whether a value is a list of sizes that an array could have, in number and in product."""
    if not isinstance(value, list | tuple) or len(value) > MOST_AXES:
        return False
    product = 1
    for size in value:
        if type(size) is not int or not 0 <= size <= MOST:
            return False
        product *= max(size, 1)
        if product > MOST:
            return False
    return True


def elements(shape: Sequence[int]) -> int:
    """How many elements a shape has."""
    product = 1
    for size in shape:
        product *= size
    return product
