"""What every model has around its state space layers: dense layers, norms, activations, pooling, heads."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.exports.onnx.graph import Graph
from aireprune.models.diagonal import BatchNorm
from aireprune.models.heads import RetrievalHead

NO_LENGTH = np.iinfo(np.int64).max  # of a sequence of which all steps count


def array(tensor: Tensor) -> np.ndarray:
    """The values of a parameter, in single precision."""
    values: np.ndarray = tensor.detach().float().cpu().numpy()
    return values


def dense(g: Graph, x: str, name: str, weight: Tensor, bias: Tensor | None = None) -> str:
    """x (..., n) -> (..., m) by weight (m, n) and bias (m,)."""
    y = g.op("MatMul", x, g.weight(f"{name}.weight", array(weight).T))
    return y if bias is None else g.op("Add", y, g.weight(f"{name}.bias", array(bias)))


def linear(g: Graph, x: str, name: str, layer: nn.Module) -> str:
    """A dense layer of the model, an `nn.Linear` or what has its weight and bias."""
    given: Any = layer
    return dense(g, x, name, given.weight, given.bias)


def embedding(g: Graph, tokens: str, name: str, table: np.ndarray) -> str:
    """tokens (...) -> (..., h) by a table (tokens, h)."""
    return g.op("Gather", g.weight(f"{name}.table", table), tokens, axis=0)


def silu(g: Graph, x: str) -> str:
    return g.op("Mul", x, g.op("Sigmoid", x))


def norm(g: Graph, x: str, name: str, module: nn.Module) -> str:
    """A norm over the last axis, or a batch norm with the statistics that it learnt."""
    if isinstance(module, nn.Identity):
        return x
    if isinstance(module, BatchNorm):
        return _batch_norm(g, x, name, module)
    if isinstance(module, nn.LayerNorm):
        assert module.bias is not None
        scale, shift = (g.weight(f"{name}.{part}", array(getattr(module, part))) for part in ("weight", "bias"))
        return g.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=module.eps)
    if isinstance(module, nn.RMSNorm):
        assert module.eps is not None
        return rms_norm(g, x, module.eps, g.weight(f"{name}.weight", array(module.weight)))
    raise AireError(f"A norm of class {type(module).__name__} has no counterpart in the ONNX graph.")


def rms_norm(g: Graph, x: str, epsilon: float, weight: str) -> str:
    """x / sqrt(mean x² + epsilon) * weight over the last axis, in the form that engines fuse."""
    square = g.op("Pow", x, g.constant(2.0))
    mean = g.op("ReduceMean", square, g.ints(-1), keepdims=1)
    root = g.op("Sqrt", g.op("Add", mean, g.constant(float(epsilon))))
    return g.op("Mul", g.op("Div", x, root), weight)


def _batch_norm(g: Graph, x: str, name: str, module: BatchNorm) -> str:
    mean, variance = module.running_mean, module.running_var
    assert mean is not None
    assert variance is not None
    scale = array(module.weight) / np.sqrt(array(variance) + module.eps)
    scaled = g.op("Mul", x, g.weight(f"{name}.scale", scale))
    return g.op("Add", scaled, g.weight(f"{name}.shift", array(module.bias) - scale * array(mean)))


def lengths_input(g: Graph) -> str:
    """The input `lengths`, one per sequence, or one for all. It may be left out; then every step counts."""
    g.weights["lengths"] = np.array([NO_LENGTH])
    return g.input("lengths", np.int64, ["sequences"])


def pool(g: Graph, z: str, mode: str) -> str:
    """(b, L, h) -> (b, h) as `aireprune.models.heads.pooled` does it, with the optional input `lengths`."""
    if mode == "tokens":
        return z
    steps = g.size(z, 1)
    lengths = g.op("Min", lengths_input(g), steps)
    if mode == "last":
        each = g.op("Expand", lengths, g.size(z, 0))
        last = g.op("Unsqueeze", g.op("Sub", each, g.ints(1)), g.ints(1))
        return g.op("GatherND", z, last, batch_dims=1)
    column = g.op("Unsqueeze", lengths, g.ints(1))
    zero, one = (g.constant(np.array(value)) for value in (0, 1))
    times = g.op("Range", zero, g.op("Squeeze", steps, g.ints(0)), one)
    valid = g.op("Cast", g.op("Less", times, column), to=1)
    total = g.op("ReduceSum", g.op("Mul", z, g.op("Unsqueeze", valid, g.ints(2))), g.ints(1), keepdims=0)
    return g.op("Div", total, g.op("Cast", column, to=1))


def head(g: Graph, features: str, name: str, module: nn.Module) -> str:
    """The dense head, or the one that compares two documents: the first halves of the batch with the second."""
    if not isinstance(module, RetrievalHead):
        return linear(g, features, name, module)
    a, b = g.ops(2, "Split", features, axis=0, num_outputs=2)
    both = g.op("Concat", a, b, g.op("Sub", a, b), g.op("Mul", a, b), axis=-1)
    hidden = g.op("Gelu", linear(g, both, f"{name}.layer1", module.layer1), approximate="tanh")
    return linear(g, hidden, f"{name}.layer2", module.layer2)
