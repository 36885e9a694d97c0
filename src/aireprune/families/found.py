"""The state space layers among named arrays, whatever family they are of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.arrays import NamedArrays
from aireprune.errors import AireError
from aireprune.families.base import Family, Layer, LTIFamily, Units
from aireprune.families.leftover import check_declarations, settle_leftovers
from aireprune.families.lru import LRU
from aireprune.families.mamba import Mamba
from aireprune.families.mamba2 import Mamba2
from aireprune.families.s4d import S4D
from aireprune.families.s5 import S5
from aireprune.method.states import LayerStates
from aireprune.method.system import ModalSystem

FAMILIES: dict[str, Family[Any]] = {family.name: family for family in (S5(), S4D(), LRU(), Mamba(), Mamba2())}
THREADS = 2  # for reading and hashing, which do not hold the interpreter lock


@dataclass(frozen=True)
class Found:
    """Layers, the arrays they were found among, and the configuration they were read under."""

    name: str  # in messages
    arrays: NamedArrays
    config: Mapping[str, Any]
    layers: list[Layer[Any]]

    def states(self) -> list[LayerStates]:
        """What is scored, layer by layer."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda layer: FAMILIES[layer.family].states(layer, self.arrays), self.layers))

    def fingerprint(self) -> str:
        """A hash of every array of every layer: the same for a file and for the module loaded from it."""

        def digest(layer: Layer[Any]) -> bytes:
            found = hashlib.blake2b(digest_size=32)
            named = dict(sorted(layer.arrays.items())) | {layer.relative(name): name for name in sorted(layer.declared)}
            for role, name in named.items():
                values = np.asarray(self.arrays[name])
                dtype = np.complex64 if np.iscomplexobj(values) else np.float32
                found.update(f"{layer.family} {role} {values.shape};".encode())
                found.update(np.ascontiguousarray(values, dtype).data)
            return found.digest()

        with ThreadPoolExecutor(THREADS) as pool:
            return hashlib.blake2b(b"".join(pool.map(digest, self.layers)), digest_size=32).hexdigest()

    def system(self, number: int, why: str) -> ModalSystem:
        """Layer `number` as a system; `why` says in the error what a selective layer cannot do."""
        layer = self.layers[number]
        return lti_family(layer, why).system(layer, self.arrays)

    def describe(self) -> dict[str, Any]:
        """What an output's configuration should say because fewer states may no longer show it."""
        facts: dict[str, Any] = {}
        for name, family in FAMILIES.items():
            facts |= family.describe([layer for layer in self.layers if layer.family == name])
        return facts


def find_layers(
    arrays: NamedArrays, config: Mapping[str, Any], units: Units | None = None, where: str = "the model"
) -> list[Layer[Any]]:
    """Every layer of every family, in the order a person would count them (layers.2 before layers.10).

    A layer with further tensors that may hold states is an error, unless `units` declares them.
    """
    units = units or Units()
    layers = [layer for family in FAMILIES.values() for layer in family.find(arrays, config, units)]
    if not layers:
        sought = "; ".join(f"{family.name}: {family.looked_for}" for family in FAMILIES.values())
        raise AireError(
            f"No state space layer was found in {where}. Names that were looked for, under any prefix: {sought}."
        )
    ordered = sorted(layers, key=lambda layer: _natural(layer.name))
    check_declarations(ordered, arrays.shapes, units.state_axes, FAMILIES)
    return settle_leftovers(ordered, arrays.shapes, units.state_axes, FAMILIES)


def lti_family(layer: Layer[Any], why: str, advice: str = "") -> LTIFamily[Any]:
    """The family of a layer, if it is linear and time-invariant and all of it is known.

    Else an error: `why` needs it, `advice` is what to do.
    """
    family = FAMILIES[layer.family]
    if not isinstance(family, LTIFamily):
        raise AireError(
            f"Layer {layer.name} is selective ({layer.family}): its input and output matrices change at every step, so "
            f"it has no Gramians, which {why} needs. {advice}".rstrip()
        )
    if layer.declared:
        raise AireError(
            f"Layer {layer.name} has tensors that no family knows ({', '.join(map(layer.relative, layer.declared))}): "
            f"what they do to its output is not known, which {why} needs. {advice}".rstrip()
        )
    return family


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]
