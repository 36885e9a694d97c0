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
    taps = array(conv.weight)[:, 0].T  # (k, D)
    if states is None:
        y = _over_time(g, x, taps)
    else:
        y = _at_one_step(g, x, taps, states) if len(taps) > 1 else g.op("Mul", x, g.weight("conv1d.weight", taps[0]))
    if conv.bias is not None:
        y = g.op("Add", y, g.weight("conv1d.bias", array(conv.bias)))
    return silu(g, y)


def _over_time(g: Graph, x: str, taps: np.ndarray) -> str:
    """The sum of shifted inputs: faster in onnxruntime than its depthwise convolution with two transpositions."""
    count, steps = len(taps), g.size(x, 1)
    padded = g.op("Pad", x, g.ints(0, count - 1, 0, 0, 0, 0))
    total = ""
    for number, tap in enumerate(taps):
        begin = g.ints(number)
        shifted = g.op("Slice", padded, begin, g.op("Add", steps, begin), g.ints(1))
        term = g.op("Mul", shifted, g.weight(f"conv1d.weight.{number}", tap))
        total = g.op("Add", total, term) if total else term
    return total


def _at_one_step(g: Graph, x: str, taps: np.ndarray, states: States) -> str:
    count, channels = taps.shape
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
