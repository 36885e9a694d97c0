"""What a streaming graph remembers from step to step: every state is an input NAME and an output NAME.next."""

from __future__ import annotations

import numpy as np

from aireprune.exports.onnx.graph import Graph


class States:
    """The states of a graph. They are zero before the first step; `shapes` are those of one stream."""

    def __init__(self, g: Graph) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._g = g
        self._after: dict[str, str] = {}

    def before(self, name: str, shape: tuple[int, ...]) -> str:
        """What the layer that is written remembers as `name`, (batch, *shape)."""
        full = ".".join((*self._g.path, name))
        self.shapes[full] = shape
        return self._g.input(full, np.float32, ["batch", *shape])

    def after(self, name: str, value: str) -> str:
        """What that is after the step."""
        self._after[".".join((*self._g.path, name))] = value
        return value

    def give_out(self) -> None:
        """Make outputs of the new states; to be called once the graph has its own outputs."""
        for name, shape in self.shapes.items():
            self._g.output(f"{name}.next", self._after[name], ["batch", *shape])
