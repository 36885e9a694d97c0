"""transformers' Mamba and Mamba-2 language models as ONNX graphs: tokens in, logits out."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from aireprune.errors import AireError
from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.mamba import mamba_layer
from aireprune.exports.onnx.mamba2 import mamba2_layer
from aireprune.exports.onnx.parts import array, dense, embedding, rms_norm
from aireprune.exports.onnx.states import States

LAYERS = {"MambaForCausalLM": mamba_layer, "Mamba2ForCausalLM": mamba2_layer}


def transformers_graph(g: Graph, model: nn.Module, states: States | None) -> None:
    """Write a language model. Embeddings that it ties to its head are stored once."""
    known: Any = model
    write = LAYERS.get(type(model).__name__)
    if write is None:
        raise AireError(
            f"{type(model).__name__} has no ONNX form here. Of transformers' models, {' and '.join(LAYERS)} have one."
        )
    if known.config.hidden_act not in ("silu", "swish"):
        raise AireError(f"The model's activation is {known.config.hidden_act}; only SiLU has an ONNX form here.")
    time = [] if states is not None else ["length"]
    tokens = g.input("tokens", np.int64, ["batch", *time])
    backbone = known.backbone
    z = embedding(g, tokens, "backbone.embeddings", array(backbone.embeddings.weight))
    for number, block in enumerate(backbone.layers):
        with g.scope(f"backbone.layers.{number}"):
            u = _norm(g, z, "norm", block.norm)
            with g.scope("mixer"):
                z = g.op("Add", z, write(g, u, block.mixer, states))
    z = _norm(g, z, "backbone.norm_f", backbone.norm_f)
    if known.lm_head.weight is backbone.embeddings.weight:
        logits = g.op("MatMul", z, g.op("Transpose", "backbone.embeddings.table", perm=[1, 0]))
    else:
        logits = dense(g, z, "lm_head", known.lm_head.weight)
    g.output("logits", logits, ["batch", *time, known.lm_head.weight.shape[0]])


def _norm(g: Graph, x: str, name: str, module: Any) -> str:
    return rms_norm(g, x, module.variance_epsilon, g.weight(f"{name}.weight", array(module.weight)))
