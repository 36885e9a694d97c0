"""What a Mamba checkpoint's names and shapes do not say about it, or say only indirectly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from aireprune.errors import AireError
from aireprune.models.heads import MODES
from aireprune.models.model_config import ModelConfig

NORMS = ("none", "layer", "rms")


@dataclass(frozen=True)
class MambaConfig(ModelConfig):
    """Configuration of our Mamba: a classifier (mode pool or last) or a language model (mode tokens).

    d_model, d_inner, d_conv, dt_rank, d_state: as in the Mamba paper. norm: of every layer's input; final_norm: before
    the head. states: states per layer once they differ from layer to layer.
    """

    needed: ClassVar[tuple[str, ...]] = ("d_input", "d_output", "d_model", "layers")
    model: ClassVar[str] = "Mamba"

    d_input: int
    d_output: int
    d_model: int
    layers: int
    d_inner: int | None = None  # 2 d_model
    d_state: int = 16
    d_conv: int = 4
    dt_rank: int | None = None  # d_model / 16, rounded up
    residual: bool = True
    norm: str = "rms"
    final_norm: str = "layer"
    bias: bool = False  # of in_proj and out_proj
    conv_bias: bool = True
    mode: str = "pool"
    retrieval: bool = False
    dropout: float = 0.0
    dt_min: float = 0.001
    dt_max: float = 0.1
    states: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for key, allowed in (("norm", NORMS), ("final_norm", NORMS), ("mode", MODES)):
            if getattr(self, key) not in allowed:
                raise AireError(
                    f"Mamba configuration: {key} is {getattr(self, key)!r}, expected one of {', '.join(allowed)}."
                )
        if self.states is not None and len(self.states) != self.layers:
            raise AireError(
                f"Mamba configuration: states lists {len(self.states)} layers, but layers is {self.layers}."
            )

    @property
    def inner(self) -> int:
        return self.d_inner or 2 * self.d_model

    @property
    def rank(self) -> int:
        return self.dt_rank or -(-self.d_model // 16)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """States of every layer."""
        return self.states if self.states is not None else (self.d_state,) * self.layers

    @classmethod
    def infer(cls, shapes: Mapping[str, tuple[int, ...]], **given: Any) -> MambaConfig:
        """The configuration of a state dict in our layout; `given` overrules it (mode and dropout leave no trace).

        Without norms in front of the layers there is no residual either: that is the public sMNIST checkpoint.
        """
        numbers = {int(m[1]) for name in shapes if (m := re.fullmatch(r"layers\.(\d+)\.A_log", name))}
        retrieval = "classifier.layer2.weight" in shapes
        head = "classifier.layer2.weight" if retrieval else "classifier.weight"
        needed = (
            "input_proj.weight",
            head,
            "layers.0.A_log",
            "layers.0.dt_proj.weight",
            "layers.0.conv1d.weight",
        )
        for name in needed:
            if name not in shapes:
                raise AireError(f"This is not a Mamba in our layout: tensor {name} is missing.")
        states = tuple(shapes[f"layers.{i}.A_log"][1] for i in sorted(numbers))
        d_model, d_input = shapes["input_proj.weight"]
        norm = _norm(shapes, "norms.0")
        found: dict[str, Any] = {
            "d_input": d_input,
            "d_output": shapes[head][0],
            "d_model": d_model,
            "layers": len(states),
            "d_inner": shapes["layers.0.A_log"][0],
            "d_state": max(states),
            "d_conv": shapes["layers.0.conv1d.weight"][-1],
            "dt_rank": shapes["layers.0.dt_proj.weight"][1],
            "residual": norm != "none",
            "norm": norm,
            "final_norm": _norm(shapes, "norm"),
            "bias": "layers.0.in_proj.bias" in shapes,
            "conv_bias": "layers.0.conv1d.bias" in shapes,
            "retrieval": retrieval,
            "states": None if len(set(states)) == 1 else states,
        }
        return cls(**{**found, **given})


def _norm(shapes: Mapping[str, tuple[int, ...]], name: str) -> str:
    if f"{name}.weight" not in shapes:
        return "none"
    return "layer" if f"{name}.bias" in shapes else "rms"
