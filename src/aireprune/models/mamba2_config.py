"""What a Mamba-2 checkpoint's names and shapes do not say about it, or say only indirectly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aireprune.errors import AireError
from aireprune.families.mamba2 import PROJECTIONS
from aireprune.models.selective_config import SelectiveConfig, Shapes, stack_shapes


@dataclass(frozen=True)
class Mamba2Config(SelectiveConfig):
    """Configuration of our Mamba-2. head_dim: channels of a head. n_groups: groups of heads that share B and C.

    projected_from: how many values of B, and of C, every layer makes per group; a layer that makes more of them than it
    has states is projected.
    """

    model: ClassVar[str] = "Mamba-2"

    d_state: int = 64
    head_dim: int = 64
    n_groups: int = 1
    projected_from: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim < 1 or self.n_groups < 1 or self.inner % (self.head_dim * self.n_groups):
            raise AireError(
                f"Mamba-2 configuration: {self.inner} channels cannot be divided into {self.n_groups} equal groups of heads "
                f"with {self.head_dim} channels each (d_inner, n_groups, head_dim)."
            )
        pairs = zip(self.state_sizes, self.gate_sizes, strict=False)
        if len(self.gate_sizes) != self.layers or any(states > values for states, values in pairs):
            raise AireError(
                f"Mamba-2 configuration: projected_from is {self.projected_from}, expected a number for each of "
                f"{self.layers} layers, at least that of its states {self.state_sizes}."
            )

    @property
    def gate_sizes(self) -> tuple[int, ...]:
        """Values of B, and of C, per group of every layer."""
        return self.state_sizes if self.projected_from is None else self.projected_from

    @property
    def heads(self) -> int:
        return self.inner // self.head_dim

    @classmethod
    def infer(cls, shapes: Shapes, n_groups: int, **given: Any) -> Mamba2Config:
        """The configuration of a state dict in our layout; `given` overrules it (mode and dropout leave no trace)."""
        found = stack_shapes(shapes, cls.model, ("A_log", "norm.weight", "conv1d.weight"))
        (inner,), (heads,) = shapes["layers.0.norm.weight"], shapes["layers.0.A_log"]
        channels = [shapes[f"layers.{i}.conv1d.weight"][0] - inner for i in range(found["layers"])]
        values = tuple(count // (2 * n_groups) for count in channels)
        units = [shapes.get(f"layers.{i}.{PROJECTIONS[0]}", (None,))[0] for i in range(found["layers"])]
        states = tuple(n if unit is None else unit // n_groups for n, unit in zip(values, units, strict=True))
        found |= {
            "d_inner": inner,
            "d_state": max(states),
            "head_dim": inner // heads,
            "n_groups": n_groups,
            "states": None if len(set(states)) == 1 else states,
            "projected_from": None if states == values else values,
        }
        return cls(**{**found, **given})
