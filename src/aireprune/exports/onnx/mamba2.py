"""Mamba-2 layers, ours and transformers': H heads of P channels with N states each, in G groups that share B and C.

    Delta = clip(softplus(dt + dt_bias))   S_t = exp(Delta A) S_{t-1} + Delta B_t x_t'   y_t = S_t' C_t + D x_t

Over time this is done in chunks of T steps: with c_t the sum of Delta A from the chunk's begin to t, what step s adds to
step t is (C_t . B_s) exp(c_t - c_s), a matrix product, and states are carried from chunk to chunk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.exports.onnx.chunks import Chunks, join_time, split_time
from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.parts import array, linear, rms_norm, silu
from aireprune.exports.onnx.selective import LINEAR_ATTENTION, convolve, linear_attention
from aireprune.exports.onnx.states import States
from aireprune.families.mamba2 import PROJECTIONS
from aireprune.models.selective import RMS_EPSILON

FEW_STATES = 32  # up to so many, shorter chunks are faster in onnxruntime 1.31 (N 16 to 128, 512 steps)
NEVER = -1e30  # exp of this is zero


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Of a layer. values: numbers of B, and of C, per group, of which N gates are made where there is a projection."""

    heads: int
    width: int  # P
    groups: int
    values: int
    states: int  # N
    epsilon: float
    limits: tuple[float, float]

    @property
    def channels(self) -> int:
        return self.heads * self.width

    @property
    def per_group(self) -> int:
        return self.heads // self.groups

    @property
    def chunk(self) -> int:
        return 32 if self.states <= FEW_STATES else 64


def shape_of(layer: Any) -> Shape:
    """The shape of one of our layers or of transformers' mixer."""
    heads, channels = len(layer.A_log), layer.out_proj.in_features
    groups = layer.n_groups if hasattr(layer, "n_groups") else layer.groups
    values = (layer.conv1d.weight.shape[0] - channels) // (2 * groups)
    projection = getattr(layer, PROJECTIONS[0], None)
    return Shape(
        heads=heads,
        width=channels // heads,
        groups=groups,
        values=values,
        states=values if projection is None else projection.shape[0] // groups,
        epsilon=getattr(layer.norm, "variance_epsilon", RMS_EPSILON),
        limits=tuple(getattr(layer, "time_step_limit", (0.0, math.inf))),
    )


def mamba2_layer(g: Graph, u: str, layer: Any, states: States | None) -> str:
    """u (b, L, d_model) -> the same; of one step (b, d_model). layer: what has a Mamba-2 layer's parameters by name."""
    shape = shape_of(layer)
    if states is not None or not shape.states or g.opset >= LINEAR_ATTENTION:
        return linear(g, _mixed(g, u, (layer, shape), states, None), "out_proj", layer.out_proj)
    u, chunks = split_time(g, u, shape.chunk)  # what fills up the end does not reach what is before it
    y = g.reshape(_mixed(g, u, (layer, shape), None, chunks), -1, shape.channels)
    return linear(g, join_time(g, y, chunks, shape.channels), "out_proj", layer.out_proj)


def _mixed(g: Graph, u: str, of: tuple[Any, Shape], states: States | None, chunks: Chunks | None) -> str:
    """What out_proj reads."""
    layer, shape = of
    bands = shape.groups * shape.values
    made = linear(g, u, "in_proj", layer.in_proj)
    sizes = g.ints(shape.channels, shape.channels + 2 * bands, shape.heads)
    z, xbc, dt = g.ops(3, "Split", made, sizes, axis=-1)
    sizes = g.ints(shape.channels, bands, bands)
    x, b, c = g.ops(3, "Split", convolve(g, xbc, layer.conv1d, states), sizes, axis=-1)
    y = g.op("Mul", x, g.weight("D", np.repeat(array(layer.D), shape.width)))
    if shape.states:
        delta = g.op("Softplus", g.op("Add", dt, g.weight("dt_bias", array(layer.dt_bias))))
        if shape.limits != (0.0, math.inf):
            delta = g.op("Clip", delta, *(g.constant(float(limit)) for limit in shape.limits))
        b, c = (_gates(g, part, name, layer, shape) for part, name in zip((b, c), PROJECTIONS, strict=True))
        decay = g.op("Mul", delta, g.weight("A", -np.exp(array(layer.A_log))))
        lead = (0,) if states is not None else (0, 0)
        spread = g.op("Mul", g.reshape(x, *lead, shape.heads, shape.width), g.op("Unsqueeze", delta, g.ints(-1)))
        driven = g.reshape(spread, *lead, shape.channels)
        scanned = _scanned(g, (driven, decay, b, c), shape, states, chunks)
        y = g.op("Add", scanned, y)
    return _gated_norm(g, g.op("Mul", y, silu(g, z)), layer, shape, states is not None)


def _gates(g: Graph, values: str, name: str, layer: Any, shape: Shape) -> str:
    """(..., G N) from values (..., G n), by a matrix for every group where the layer is projected."""
    matrix = getattr(layer, name, None)
    if matrix is None:
        return values
    per_group = array(matrix).reshape(shape.groups, shape.states, shape.values)
    blocks = np.zeros((shape.groups, shape.values, shape.groups, shape.states), np.float32)
    for number, block in enumerate(per_group):
        blocks[number, :, number] = block.T
    size = (shape.groups * shape.values, shape.groups * shape.states)
    return g.op("MatMul", values, g.weight(name, blocks.reshape(size)))


def _gated_norm(g: Graph, y: str, layer: Any, shape: Shape, one_step: bool) -> str:
    """RMS norm over the channels of each group."""
    lead = (0,) if one_step else (0, 0)
    if shape.groups > 1:
        y = g.reshape(y, *lead, shape.groups, -1)
    y = rms_norm(g, y, shape.epsilon, g.weight("norm.weight", array(layer.norm.weight).reshape(shape.groups, -1)))
    return g.reshape(y, *lead, -1) if shape.groups > 1 else y


def _scanned(
    g: Graph, inputs: tuple[str, str, str, str], shape: Shape, states: States | None, chunks: Chunks | None
) -> str:
    """driven (b, L, D), decay (b, L, H), b and c (b, L, G N) -> y (b, L, D)."""
    if states is not None:
        return _step(g, inputs, shape, states)
    if chunks is not None:
        return _over_chunks(g, inputs, shape, chunks)
    driven, decay, b, c = inputs
    sizes = (shape.heads, shape.states, shape.width)
    if shape.groups < shape.heads:
        spread = g.ints(1, 1, 1, shape.per_group, 1)
        parts = (g.reshape(part, 0, 0, shape.groups, 1, shape.states) for part in (b, c))
        b, c = (g.reshape(g.op("Expand", part, spread), 0, 0, -1) for part in parts)
    return linear_attention(g, c, b, driven, decay, sizes)


def _step(g: Graph, inputs: tuple[str, str, str, str], shape: Shape, states: States) -> str:
    """One step with the state (b, H, P, N)."""
    driven, decay, b, c = inputs
    before = states.before("state", (shape.heads, shape.width, shape.states))
    grouped = (shape.groups, shape.per_group, shape.width)
    push = g.reshape(driven, 0, *grouped, 1)
    keys, queries = (g.reshape(part, 0, shape.groups, 1, 1, shape.states) for part in (b, c))
    kept = g.op("Mul", before, g.reshape(g.op("Exp", decay), 0, shape.heads, 1, 1))
    filled = g.reshape(g.op("Mul", push, keys), 0, shape.heads, shape.width, shape.states)
    after = states.after("state", g.op("Add", kept, filled))
    read = g.op("Mul", g.reshape(after, 0, *grouped, shape.states), queries)
    return g.reshape(g.op("ReduceSum", read, g.ints(-1), keepdims=0), 0, shape.channels)


def _over_chunks(g: Graph, inputs: tuple[str, str, str, str], shape: Shape, chunks: Chunks) -> str:
    """By matrix products within chunks; axes (M, G, R, …) with R heads of a group, M chunks of all sequences."""
    driven, decay, b, c = inputs
    t, n, groups, heads = shape.chunk, shape.states, shape.groups, shape.per_group
    x = g.op("Transpose", g.reshape(driven, -1, t, shape.heads, shape.width), perm=[0, 2, 1, 3])
    x = g.reshape(x, -1, groups, heads, t, shape.width)
    logs = g.op("Transpose", g.reshape(decay, -1, t, shape.heads), perm=[0, 2, 1])
    total = g.op("CumSum", g.reshape(logs, -1, groups, heads, t), g.constant(np.array(-1)))
    keys = g.op("Transpose", g.reshape(b, -1, t, groups, n), perm=[0, 2, 3, 1])  # (M, G, N, T)
    queries = g.op("Transpose", g.reshape(c, -1, t, groups, n), perm=[0, 2, 1, 3])  # (M, G, T, N)
    keys1, queries1 = (g.op("Unsqueeze", part, g.ints(2)) for part in (keys, queries))
    column, row = (g.op("Unsqueeze", total, g.ints(axis)) for axis in (-1, -2))
    later = np.where(np.tri(t), 0, NEVER).astype(np.float32)
    weights = g.op("Exp", g.op("Add", g.op("Sub", column, row), g.constant(later)))  # (M, G, R, T, T)
    inside = g.op("MatMul", g.op("Mul", g.op("Unsqueeze", g.op("MatMul", queries, keys), g.ints(2)), weights), x)
    last = g.op("Slice", total, g.ints(t - 1), g.ints(t), g.ints(-1))  # (M, G, R, 1)
    left = g.op("Unsqueeze", g.op("Exp", g.op("Sub", last, total)), g.ints(-1))
    ends = g.op("MatMul", keys1, g.op("Mul", x, left))  # (M, G, R, N, P)
    before = _carried(g, ends, g.op("Exp", last), shape, chunks)
    across = g.op("Mul", g.op("MatMul", queries1, before), g.op("Exp", column))
    y = g.reshape(g.op("Add", inside, across), -1, shape.heads, t, shape.width)
    y = g.op("Transpose", y, perm=[0, 2, 1, 3])
    return g.reshape(y, chunks.batch, -1, shape.channels)


def _carried(g: Graph, ends: str, decay: str, shape: Shape, chunks: Chunks) -> str:
    """States that chunks begin with, (M, G, R, N, P): from what each adds at its end, and its decay (M, G, R, 1)."""

    def step(body: Graph, state: str, now: Any) -> tuple[str, str]:
        end, kept = now
        return body.op("Add", body.op("Mul", state, kept), end), body.op("Identity", state)

    sizes = (shape.heads, shape.states, shape.width)
    begin = g.op("Expand", g.constant(0.0), g.op("Concat", chunks.batch, g.ints(*sizes), axis=0))
    per_chunk = g.reshape(ends, chunks.batch, -1, *sizes)
    _, before = g.scan(step, begin, [per_chunk, g.reshape(decay, chunks.batch, -1, shape.heads, 1, 1)], axis=1)
    return g.reshape(before, -1, shape.groups, shape.per_group, shape.states, shape.width)
