"""What the configurations of Mamba and Mamba-2 have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from aireprune.errors import AireError
from aireprune.models.heads import MODES
from aireprune.models.model_config import ModelConfig

NORMS = ("none", "layer", "rms")
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class SelectiveConfig(ModelConfig):
    """Configuration of a classifier (mode pool or last) or a language model (mode tokens) of selective layers.

    d_model, d_inner, d_conv, d_state: as in the papers. norm: of every layer's input; final_norm: before the head.
    states: states (per group) of every layer once they differ from layer to layer.
    """

    needed: ClassVar[tuple[str, ...]] = ("d_input", "d_output", "d_model", "layers")
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"norm": NORMS, "final_norm": NORMS, "mode": MODES}

    d_input: int
    d_output: int
    d_model: int
    layers: int
    d_inner: int | None = None  # 2 d_model
    d_state: int = 16
    d_conv: int = 4
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

    @property
    def inner(self) -> int:
        return self.d_inner or 2 * self.d_model

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """States (per group) of every layer."""
        return self.states if self.states is not None else (self.d_state,) * self.layers


def stack_shapes(shapes: Shapes, model: str, of_a_layer: tuple[str, ...]) -> dict[str, Any]:
    """What the shapes of a state dict in our layout say about everything but the states.

    of_a_layer: names, without prefix, of tensors that every layer of such a model has. Without norms in front of the
    layers there is no residual either: that is the public sMNIST checkpoint of Mamba.
    """
    retrieval = "classifier.layer2.weight" in shapes
    head = "classifier.layer2.weight" if retrieval else "classifier.weight"
    count = len({int(m[1]) for name in shapes if (m := re.fullmatch(r"layers\.(\d+)\.A_log", name))})
    layers = [f"layers.{number}.{leaf}" for number in range(max(count, 1)) for leaf in of_a_layer]
    for name in ("input_proj.weight", head, *layers):
        if name not in shapes:
            raise AireError(f"This is not a {model} in our layout: tensor {name} is missing.")
    d_model, d_input = shapes["input_proj.weight"]
    norm = _norm(shapes, "norms.0")
    return {
        "d_input": d_input,
        "d_output": shapes[head][0],
        "d_model": d_model,
        "layers": count,
        "d_conv": shapes["layers.0.conv1d.weight"][-1],
        "residual": norm != "none",
        "norm": norm,
        "final_norm": _norm(shapes, "norm"),
        "bias": "layers.0.in_proj.bias" in shapes,
        "conv_bias": "layers.0.conv1d.bias" in shapes,
        "retrieval": retrieval,
    }


def _norm(shapes: Shapes, name: str) -> str:
    if f"{name}.weight" not in shapes:
        return "none"
    return "layer" if f"{name}.bias" in shapes else "rms"
