"""What a Mamba checkpoint's names and shapes do not say about it, or say only indirectly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aireprune.models.selective_config import SelectiveConfig, Shapes, stack_shapes


@dataclass(frozen=True)
class MambaConfig(SelectiveConfig):
    """Configuration of our Mamba. dt_rank: as in the Mamba paper."""

    model: ClassVar[str] = "Mamba"

    dt_rank: int | None = None  # d_model / 16, rounded up

    @property
    def rank(self) -> int:
        return self.dt_rank or -(-self.d_model // 16)

    @classmethod
    def infer(cls, shapes: Shapes, **given: Any) -> MambaConfig:
        """The configuration of a state dict in our layout; `given` overrules it (mode and dropout leave no trace)."""
        found = stack_shapes(shapes, cls.model, ("A_log", "dt_proj.weight", "conv1d.weight"))
        states = tuple(shapes[f"layers.{i}.A_log"][1] for i in range(found["layers"]))
        found |= {
            "d_inner": shapes["layers.0.A_log"][0],
            "d_state": max(states),
            "dt_rank": shapes["layers.0.dt_proj.weight"][1],
            "states": None if len(set(states)) == 1 else states,
        }
        return cls(**{**found, **given})
