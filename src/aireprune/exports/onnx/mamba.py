"""Mamba layers, ours and transformers': D channels with N states each, which every step lets decay and fills anew.

Delta = softplus(dt_proj(dt))   h_t = exp(Delta A) h_{t-1} + Delta B_t x_t   y_t = (C_t . h_t + D x_t) silu(z_t)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.parts import array, dense, linear, silu
from aireprune.exports.onnx.selective import LINEAR_ATTENTION, convolve, linear_attention
from aireprune.exports.onnx.states import States


def mamba_layer(g: Graph, u: str, layer: Any, states: States | None) -> str:
    """u (b, L, d_model) -> the same; of one step (b, d_model). layer: what has a Mamba layer's parameters by name."""
    x, z = g.ops(2, "Split", linear(g, u, "in_proj", layer.in_proj), axis=-1, num_outputs=2)
    x = convolve(g, x, layer.conv1d, states)
    y = g.op("Mul", x, g.weight("D", array(layer.D)))
    if layer.A_log.shape[1]:
        y = g.op("Add", _scan(g, x, layer, states), y)
    return linear(g, g.op("Mul", y, silu(g, z)), "out_proj", layer.out_proj)


def _scan(g: Graph, x: str, layer: Any, states: States | None) -> str:
    """x (b, L, D) -> C_t . h_t (b, L, D)."""
    rank, (channels, n) = layer.dt_proj.weight.shape[1], layer.A_log.shape
    made = dense(g, x, "x_proj", layer.x_proj.weight)
    dt, b, c = g.ops(3, "Split", made, g.ints(rank, n, n), axis=-1)
    delta = g.op("Softplus", linear(g, dt, "dt_proj", layer.dt_proj))
    driven, poles = g.op("Mul", delta, x), -np.exp(array(layer.A_log))
    if states is not None:
        return _step(g, (delta, driven, b, c), poles, states)
    if g.opset >= LINEAR_ATTENTION:
        wide = g.op("Concat", g.size(x, 0), g.size(x, 1), g.ints(channels, n), axis=0)
        keys, queries = (_flat(g, g.op("Expand", g.op("Unsqueeze", part, g.ints(2)), wide)) for part in (b, c))
        decay = _flat(g, g.op("Mul", g.op("Unsqueeze", delta, g.ints(3)), g.weight("A", poles)))
        return linear_attention(g, queries, keys, driven, decay, (channels, n, 1))
    return _recurrence(g, (delta, driven, b, c), poles)


def _flat(g: Graph, value: str) -> str:
    return g.reshape(value, 0, 0, -1)


def _step(g: Graph, inputs: tuple[str, str, str, str], poles: np.ndarray, states: States) -> str:
    delta, driven, b, c = inputs
    column, push = (g.op("Unsqueeze", part, g.ints(2)) for part in (delta, driven))  # (b, D, 1)
    decay = g.op("Exp", g.op("Mul", column, g.weight("A", poles)))
    before = states.before("state", poles.shape)
    filled = g.op("Mul", push, g.op("Unsqueeze", b, g.ints(1)))
    h = states.after("state", g.op("Add", g.op("Mul", decay, before), filled))
    return g.op("Squeeze", g.op("MatMul", h, g.op("Unsqueeze", c, g.ints(2))), g.ints(2))


def _recurrence(g: Graph, inputs: tuple[str, str, str, str], poles: np.ndarray) -> str:
    """Step by step with states (b, N, D): channels last, because engines run along the last axis."""
    delta, driven, b, c = inputs
    channels, n = poles.shape
    matrix = g.weight("A", poles.T)

    def step(body: Graph, state: str, now: Any) -> tuple[str, str]:
        delta, driven, b, c = now  # (b, 1, D), (b, 1, D), (b, N, 1), (b, 1, N)
        decay = body.op("Exp", body.op("Mul", delta, matrix))
        after = body.op("Add", body.op("Mul", decay, state), body.op("Mul", driven, b))
        return after, body.op("MatMul", c, after)

    rows = [g.op("Unsqueeze", part, g.ints(2)) for part in (delta, driven)]
    gates = [g.op("Unsqueeze", b, g.ints(3)), g.op("Unsqueeze", c, g.ints(2))]
    begin = g.op("Expand", g.constant(0.0), g.op("Concat", g.size(delta, 0), g.ints(n, channels), axis=0))
    _, y = g.scan(step, begin, [*rows, *gates], axis=1)
    return g.op("Squeeze", y, g.ints(2))
