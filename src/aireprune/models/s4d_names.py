"""The S4 repository's example network in our names, whatever prefix and version a file has.

ours                                             theirs, behind one prefix
s4_layers.i.kernel.…                             the same (s4d.py), s4_layers.i.layer.kernel.… (version 4), or
                                                 s4_layers.i.kernel.kernel.… (versions 2 and 3)
s4_layers.i.D (h,)                               the same, or s4_layers.i.layer.D; (h,) or (1, h)
s4_layers.i.output_linear.0.weight (2h, h, 1)    the same, or without the last axis
encoder, decoder, norms.i                        the same
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from aireprune.arrays import NamedArrays, Shape

BLOCK = re.compile(r"((?:.*\.)?)s4_layers\.\d+\.")
DEEPER = re.compile(r"(s4_layers\.\d+)\.(?:layer\.(?=kernel\.|D$)|kernel\.(?=kernel\.))")


def network_prefix(names: Iterable[str]) -> str:
    """What stands in front of s4_layers in the first name that has it, with its dot; empty if there is none."""
    return next((found[1] for name in names if (found := BLOCK.match(name))), "")


def own_name(name: str, prefix: str) -> str:
    """The name that our model has for a tensor of a file."""
    return DEEPER.sub(r"\1.", name.removeprefix(prefix))


class OwnNames:
    """Named arrays of such a network in the names of our model, and in its shapes where axes of length 1 are all that
    differs. Tensors outside the prefix are not of the network and stay away."""

    def __init__(self, arrays: NamedArrays):
        self._arrays = arrays
        prefix = network_prefix(arrays.shapes)
        self._stored = {own_name(name, prefix): name for name in arrays.shapes if name.startswith(prefix)}
        self.shapes: Mapping[str, Shape] = {
            own: _own_shape(own, tuple(arrays.shapes[name])) for own, name in self._stored.items()
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self._arrays[self._stored[name]]).reshape(self.shapes[name])

    def stored(self, name: str) -> str:
        """The name that the file has for a tensor of our model; our own if it has none."""
        return self._stored.get(name, name)


def _own_shape(name: str, shape: Shape) -> Shape:
    if name.endswith(".D") and len(shape) == 2 and shape[0] == 1:
        return shape[1:]
    if name.endswith("output_linear.0.weight") and len(shape) == 2:
        return (*shape, 1)
    return shape
