"""What a checkpoint of the S4 repository's example model does not say about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from aireprune.errors import AireError
from aireprune.families.base import expect_shape
from aireprune.models.heads import MODES
from aireprune.models.model_config import ModelConfig


@dataclass(frozen=True)
class S4DConfig(ModelConfig):
    """Configuration of an S4D classifier.

    h: channels. n: state size of a channel, counting both halves of each conjugate pair. states: stored pairs per
    channel of every layer, once they differ from layer to layer (else n/2).
    """

    needed: ClassVar[tuple[str, ...]] = ("d_input", "d_output", "h", "n", "layers")
    model: ClassVar[str] = "S4D"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"mode": MODES}

    d_input: int
    d_output: int
    h: int
    n: int
    layers: int
    prenorm: bool = False
    mode: str = "pool"
    retrieval: bool = False
    dropout: float = 0.0
    dt_min: float = 0.001
    dt_max: float = 0.1
    states: tuple[int, ...] | None = None

    @property
    def modes(self) -> tuple[int, ...]:
        """Stored pairs per channel of every layer."""
        return (self.n // 2,) * self.layers if self.states is None else self.states

    @classmethod
    def infer(cls, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, Any] | None = None) -> Self:
        """From the shapes of a state dict. Pre-norm, mode and dropout leave no trace in them: they come from `given`."""
        why = "the S4D classifier needs it"
        h, d_input = expect_shape(shapes, "encoder.weight", (None, None), why)
        retrieval = "decoder.layer2.weight" in shapes
        d_output, _ = expect_shape(shapes, "decoder.layer2.weight" if retrieval else "decoder.weight", (None, h), why)
        states: list[int] = []
        while (name := f"s4_layers.{len(states)}.kernel.C") in shapes:
            readouts = (1,) * (len(shapes[name]) == 4)  # in the S4 repository's own kernel
            states.append(expect_shape(shapes, name, (*readouts, h, None, 2), why)[-2])
        if not states:
            raise AireError("Tensor s4_layers.0.kernel.C is missing: the S4D classifier needs it.")
        inferred = {
            "d_input": d_input,
            "d_output": d_output,
            "h": h,
            "n": 2 * max(states),
            "layers": len(states),
            "retrieval": retrieval,
        }
        same = len(set(states)) == 1
        return cls.from_dict({**(given or {}), **inferred, "states": None if same else states})
