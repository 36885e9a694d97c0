"""Our own models as ONNX graphs: encoder, blocks, pooling and head, over whole sequences or one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from aireprune.errors import AireError
from aireprune.exports.onnx.diagonal import diagonal_layer
from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.mamba import mamba_layer
from aireprune.exports.onnx.mamba2 import mamba2_layer
from aireprune.exports.onnx.parts import array, dense, embedding, head, linear, norm, pool
from aireprune.exports.onnx.s4d import s4d_ssm
from aireprune.exports.onnx.states import States
from aireprune.models.diagonal import DiagonalBlock, DiagonalModel
from aireprune.models.mamba import MambaModel
from aireprune.models.s4d import S4DLayer, S4DModel
from aireprune.models.selective import SelectiveModel


def own_graph(g: Graph, model: nn.Module, tokens: bool, states: States | None) -> None:
    """Write one of our models. tokens: its input is whole numbers (b, L), not (b, L, d_input)."""
    own: Any = model
    if states is not None:
        refuse_to_stream(model)
    z = _encoded(g, own, tokens, states is not None)
    if isinstance(model, DiagonalModel):
        z = _diagonal_stack(g, z, model, states)
    elif isinstance(model, S4DModel):
        z = _s4d_stack(g, z, model, states)
    else:
        assert isinstance(model, SelectiveModel)
        z = _selective_stack(g, z, model, states)
    features = pool(g, z, own.config.mode) if states is None else _pooled_so_far(g, z, own.config, states)
    if isinstance(model, SelectiveModel):
        features = norm(g, features, "norm", model.norm)
    name = "classifier" if isinstance(model, SelectiveModel) else "decoder"
    per_step = ["length"] if own.config.mode == "tokens" and states is None else []
    rows = "pairs" if own.config.retrieval else "batch"
    g.output("logits", head(g, features, name, getattr(model, name)), [rows, *per_step, own.config.d_output])


def refuse_to_stream(model: nn.Module) -> None:
    """Raise where steps cannot be taken one by one."""
    config: Any = model.config
    if getattr(config, "bidirectional", False):
        raise AireError(
            "The model is bidirectional: its second direction begins at the end of a sequence, so it cannot be run step by "
            "step. Leave out step=True."
        )
    if config.retrieval:
        raise AireError("The model compares two whole documents, so it is not run step by step. Leave out step=True.")


def _encoded(g: Graph, model: Any, tokens: bool, one_step: bool) -> str:
    encoder: nn.Linear = model.input_proj if isinstance(model, SelectiveModel) else model.encoder
    name, time = "input_proj" if isinstance(model, SelectiveModel) else "encoder", [] if one_step else ["length"]
    if tokens:
        table = array(encoder.weight).T + array(encoder.bias)
        return embedding(g, g.input("tokens", np.int64, ["batch", *time]), name, table)
    return linear(g, g.input("x", np.float32, ["batch", *time, model.config.d_input]), name, encoder)


def _diagonal_stack(g: Graph, z: str, model: DiagonalModel, states: States | None) -> str:
    for number, block in enumerate(model.layers):
        assert isinstance(block, DiagonalBlock)
        with g.scope(f"layers.{number}"):
            u = norm(g, z, "norm", block.norm) if block.prenorm else z
            with g.scope("seq"):
                y = diagonal_layer(g, u, block.seq, states)
            z = g.op("Add", z, _gate(g, y, block))
            z = z if block.prenorm else norm(g, z, "norm", block.norm)
    return z


def _gate(g: Graph, y: str, block: DiagonalBlock) -> str:
    active = g.op("Gelu", y, approximate="tanh")
    if block.activation == "gelu":
        return active
    opened = g.op("Sigmoid", linear(g, active, "out2", block.out2))
    if block.activation == "full_glu":
        return g.op("Mul", linear(g, active, "out1", block.out1), opened)
    return g.op("Mul", y if block.activation == "half_glu2" else active, opened)


def _s4d_stack(g: Graph, z: str, model: S4DModel, states: States | None) -> str:
    for number, (layer, normed) in enumerate(zip(model.s4_layers, model.norms, strict=True)):
        assert isinstance(layer, S4DLayer)
        u = norm(g, z, f"norms.{number}", normed) if model.config.prenorm else z
        with g.scope(f"s4_layers.{number}"):
            y = g.op("Gelu", s4d_ssm(g, u, layer, states))
            mixing: Any = layer.output_linear[0]
            mixed = dense(g, y, "output_linear", mixing.weight[:, :, 0], mixing.bias)
            value, opened = g.ops(2, "Split", mixed, axis=-1, num_outputs=2)
            z = g.op("Add", z, g.op("Mul", value, g.op("Sigmoid", opened)))
        z = z if model.config.prenorm else norm(g, z, f"norms.{number}", normed)
    return z


def _selective_stack(g: Graph, z: str, model: SelectiveModel, states: States | None) -> str:
    write = mamba_layer if isinstance(model, MambaModel) else mamba2_layer
    for number, (layer, normed) in enumerate(zip(model.layers, model.norms, strict=True)):
        u = norm(g, z, f"norms.{number}", normed)
        with g.scope(f"layers.{number}"):
            out = write(g, u, layer, states)
        z = g.op("Add", z, out) if model.config.residual else out
    return z


def _pooled_so_far(g: Graph, z: str, config: Any, states: States) -> str:
    """What the head reads after this step: of the steps so far, as if the sequence ended here."""
    if config.mode != "pool":
        return z
    width = config.d_model if hasattr(config, "d_model") else config.h
    total = states.after("pool.sum", g.op("Add", states.before("pool.sum", (width,)), z))
    count = states.after("pool.steps", g.op("Add", states.before("pool.steps", (1,)), g.constant(1.0)))
    return g.op("Div", total, count)
