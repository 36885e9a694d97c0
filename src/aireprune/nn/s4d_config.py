"""What a checkpoint of the S4 repository's example model does not say about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from aireprune.errors import AireError
from aireprune.families.base import expect_shape


@dataclass(frozen=True)
class S4DConfig:
    """Configuration of an S4D classifier.

    h: channels. n: state size of a channel, counting both halves of each conjugate pair. states: stored pairs per
    channel of every layer, once they differ from layer to layer (else n/2).
    """

    d_input: int
    d_output: int
    h: int
    n: int
    layers: int
    prenorm: bool = False
    dropout: float = 0.0
    dt_min: float = 0.001
    dt_max: float = 0.1
    states: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.states is not None and len(self.states) != self.layers:
            raise AireError(f"S4D configuration: states lists {len(self.states)} layers, but layers is {self.layers}.")

    @property
    def modes(self) -> tuple[int, ...]:
        """Stored pairs per channel of every layer."""
        return (self.n // 2,) * self.layers if self.states is None else self.states

    def with_states(self, states: tuple[int, ...]) -> S4DConfig:
        return replace(self, states=tuple(int(s) for s in states))

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        values["states"] = None if self.states is None else list(self.states)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "configuration") -> S4DConfig:
        """Build from a mapping; keys that S4D does not know are ignored, missing ones are named."""
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        needed = [key for key in ("d_input", "d_output", "h", "n", "layers") if key not in known]
        if needed:
            raise AireError(f"{where}: the S4D configuration has no {', '.join(needed)}.")
        if known.get("states") is not None:
            known["states"] = tuple(known["states"])
        return cls(**known)

    @classmethod
    def infer(cls, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, Any] | None = None) -> S4DConfig:
        """From the shapes of a state dict. Pre-norm and dropout leave no trace in them: they come from `given`."""
        why = "the S4D classifier needs it"
        h, d_input = expect_shape(shapes, "encoder.weight", (None, None), why)
        d_output, _ = expect_shape(shapes, "decoder.weight", (None, h), why)
        states: list[int] = []
        while f"s4_layers.{len(states)}.kernel.C" in shapes:
            states.append(expect_shape(shapes, f"s4_layers.{len(states)}.kernel.C", (h, None, 2), why)[1])
        if not states:
            raise AireError("Tensor s4_layers.0.kernel.C is missing: the S4D classifier needs it.")
        inferred = {"d_input": d_input, "d_output": d_output, "h": h, "n": 2 * max(states), "layers": len(states)}
        same = len(set(states)) == 1
        return cls.from_dict({**(given or {}), **inferred, "states": None if same else states})
