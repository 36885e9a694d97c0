"""What Mamba and Mamba-2 layers have in common: the causal convolution, and LinearAttention as their scan."""

from __future__ import annotations

import numpy as np
from torch import nn

from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.parts import array, silu
from aireprune.exports.onnx.states import States

LINEAR_ATTENTION = 27  # the first opset that has it


def convolve(g: Graph, x: str, conv: nn.Conv1d, states: States | None) -> str:
    """Depthwise causal convolution and SiLU of x (b, L, D), or of one step (b, D) behind the k - 1 inputs before it."""
    weight = array(conv.weight)  # (D, 1, k)
    y = _over_time(g, x, weight) if states is None else _at_one_step(g, x, weight[:, 0].T, states)
    if conv.bias is not None:
        y = g.op("Add", y, g.weight("conv1d.bias", array(conv.bias)))
    return silu(g, y)


def _over_time(g: Graph, x: str, weight: np.ndarray) -> str:
    """By the operator Conv, which wants time last: two to ten times as fast as shifted inputs in onnxruntime 1.31."""
    channels, _, count = weight.shape
    columns = g.op("Transpose", x, perm=[0, 2, 1])
    y = g.op("Conv", columns, g.weight("conv1d.weight", weight), group=channels, pads=[count - 1, 0])
    return g.op("Transpose", y, perm=[0, 2, 1])


def _at_one_step(g: Graph, x: str, taps: np.ndarray, states: States) -> str:
    count, channels = taps.shape
    if count == 1:
        return g.op("Mul", x, g.weight("conv1d.weight", taps[0]))
    before = states.before("inputs", (count - 1, channels))
    window = g.op("Concat", before, g.op("Unsqueeze", x, g.ints(1)), axis=1)
    states.after("inputs", g.op("Slice", window, g.ints(1), g.ints(count), g.ints(1)))
    return g.op("ReduceSum", g.op("Mul", window, g.weight("conv1d.weight", taps)), g.ints(1), keepdims=0)


def linear_attention(g: Graph, queries: str, keys: str, values: str, decay: str, sizes: tuple[int, int, int]) -> str:
    """S_t = exp(decay_t) S_{t-1} + k_t v_t', y_t = S_t' q_t in each of H heads, with keys of N and values of P numbers.

    queries and keys (b, L, H N), values (b, L, H P), decay (b, L, H N) or (b, L, H), sizes (H, N, P) -> (b, L, H P).
    """
    heads, keyed, valued = sizes
    shape = g.op("Concat", g.size(values, 0), g.ints(heads, keyed, valued), axis=0)
    begin = g.op("Expand", g.constant(0.0), shape)
    outputs = g.ops(
        2,
        "LinearAttention",
        *(queries, keys, values, begin, decay),
        update_rule="gated",
        scale=1.0,
        q_num_heads=heads,
        kv_num_heads=heads,
    )
    return outputs[0]
