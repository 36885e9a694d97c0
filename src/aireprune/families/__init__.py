"""Families of state space layers, each described over named arrays in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aireprune.errors import AireError
from aireprune.families.base import Family, Layer, NamedArrays
from aireprune.families.lru import LRU
from aireprune.families.mamba import Mamba
from aireprune.families.mamba2 import Mamba2
from aireprune.families.s4d import S4D
from aireprune.families.s5 import S5

FAMILIES: dict[str, Family] = {family.name: family for family in (S5(), S4D(), LRU(), Mamba(), Mamba2())}


def find_layers(arrays: NamedArrays, config: Mapping[str, Any], where: str = "the model") -> list[Layer]:
    """Every layer of every family, in the order a person would count them (layers.2 before layers.10)."""
    layers = [layer for family in FAMILIES.values() for layer in family.find(arrays.shapes, config)]
    if not layers:
        sought = "".join(f"\n  {family.name}: {family.looked_for}" for family in FAMILIES.values())
        raise AireError(
            f"No state space layer was found in {where}. Names that were looked for, under any prefix:{sought}"
        )
    return sorted(layers, key=lambda layer: _natural(layer.name))


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]
