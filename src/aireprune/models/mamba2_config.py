"""What a Mamba-2 checkpoint's names and shapes do not say about it, or say only indirectly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aireprune.errors import AireError
from aireprune.models.selective_config import SelectiveConfig, Shapes, stack_shapes


@dataclass(frozen=True)
class Mamba2Config(SelectiveConfig):
    """Configuration of our Mamba-2. head_dim: channels of a head. n_groups: groups of heads that share B and C."""

    model: ClassVar[str] = "Mamba-2"

    d_state: int = 64
    head_dim: int = 64
    n_groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim < 1 or self.n_groups < 1 or self.inner % (self.head_dim * self.n_groups):
            raise AireError(
                f"Mamba-2 configuration: {self.inner} channels cannot be divided into {self.n_groups} equal groups of heads "
                f"with {self.head_dim} channels each (d_inner, n_groups, head_dim)."
            )

    @property
    def heads(self) -> int:
        return self.inner // self.head_dim

    @classmethod
    def infer(cls, shapes: Shapes, n_groups: int, **given: Any) -> Mamba2Config:
        """The configuration of a state dict in our layout; `given` overrules it (mode and dropout leave no trace)."""
        found = stack_shapes(shapes, cls.model, ("A_log", "norm.weight", "conv1d.weight"))
        (inner,), (heads,) = shapes["layers.0.norm.weight"], shapes["layers.0.A_log"]
        channels = [shapes[f"layers.{i}.conv1d.weight"][0] - inner for i in range(found["layers"])]
        states = tuple(count // (2 * n_groups) for count in channels)
        found |= {
            "d_inner": inner,
            "d_state": max(states),
            "head_dim": inner // heads,
            "n_groups": n_groups,
            "states": None if len(set(states)) == 1 else states,
        }
        return cls(**{**found, **given})
