"""All blocks of an S5 or LRU model without gradients, sequence by sequence on the CPU: short ones never leave the cache.

Shapes: b batch, L time, h features, P modes, V words. Parameters are discretised and packed when blocks are made ready, so
that many batches can share it; whoever keeps `Ready` blocks sees to it that nobody changes the modules meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.kernels.inputs import dense
from aireprune.kernels.numba.s5_codes import ACTIVATIONS, METHODS, NORMS
from aireprune.kernels.scan import fresh

IN_CACHE = 1 << 18  # bytes of a sequence and of what B makes of it: half a second-level cache
_LINE = 64


class Words(NamedTuple):
    """Tokens that were not looked up yet: row codes[i, t] (int64) of table (V, h) is what enters."""

    table: Tensor
    codes: Tensor

    def looked_up(self) -> Tensor:
        """(b, L, h)"""
        return nn.functional.embedding(self.codes, self.table)


@dataclass(frozen=True)
class Ready:
    """Blocks whose weights were made ready. weights: of all of them, in a row; modes: of each."""

    weights: np.ndarray
    modes: np.ndarray
    h: int
    directions: int
    gates: int
    activation: int
    norm: int
    eps: float


def block_arguments(block: Any) -> dict[str, Any]:
    """A stock block as `aireprune.kernels.s5.s5_block` takes it: the weights as they are now."""
    norm, batch = block.norm, isinstance(block.norm, nn.BatchNorm1d)
    statistics = (norm.running_mean, norm.running_var) if batch else ()
    gates = [getattr(block, name) for name in ("out1", "out2") if hasattr(block, name)]
    return {
        **block.seq.operator_arguments(),
        "activation": block.activation,
        "gates": [(gate.weight, gate.bias) for gate in gates],
        "norm": ("pre" if block.prenorm else "post") + ("_batch" if batch else "_layer"),
        "norm_weights": [norm.weight, norm.bias, *statistics],
        "eps": norm.eps,
    }


def fits(blocks: Sequence[Any], entering: Tensor | Words) -> bool:
    """Whether these stock blocks are alike and a sequence of the batch stays in cache, one at least for every thread."""
    from aireprune.kernels.numba.compile import threads

    batch, length = entering.codes.shape if isinstance(entering, Words) else entering.shape[:2]
    given = entering.table if isinstance(entering, Words) else entering
    first = blocks[0] if blocks else None
    if first is None or given.dtype not in (torch.float32, torch.float64) or not length or batch < threads():
        return False
    kinds = {
        (type(block.norm), block.norm.eps, block.activation, block.prenorm, len(block.seq.readouts()))
        for block in blocks
    }
    most = max(block.seq.modes for block in blocks)
    exact = all(tensor.dtype == given.dtype for block in blocks for tensor in block.parameters())
    return len(kinds) == 1 and exact and length * (given.shape[-1] + 2 * most) * given.element_size() <= IN_CACHE


def make_ready(blocks: Sequence[Any]) -> Ready:
    """Stock blocks for which `fits` holds."""
    from aireprune.kernels.numba import s5_stack

    given = [block_arguments(block) for block in blocks]
    one = given[0]
    h, directions, gates = len(one["d"]), len(one["c"]), len(one["gates"]) * len(one["d"])
    kind = dense(one["d"]).dtype
    modes = np.array([len(some["b"]) for some in given], np.int64)
    sizes = [s5_stack.weights_size(int(p), h, directions, gates, kind.itemsize) for p in modes]
    weights, norm, at = _aligned(1, sum(sizes), kind)[0], NORMS.index(one["norm"]), 0
    nothing = np.empty(0, kind)
    for some, size in zip(given, sizes, strict=True):
        w = [dense(weight) for weight, _ in some["gates"]]
        biases = [dense(bias) for _, bias in some["gates"]]
        c = [dense(part) for part in some["c"]]
        poles = tuple(dense(part) for part in some["poles"])
        s5_stack.make_ready(
            poles, some["step_rescale"], some["clip_at"], METHODS.index(some["method"]), dense(some["b"]), c[0], c[-1],
            directions, some["c_scale"], dense(some["d"]), np.concatenate(w) if w else np.empty((0, h), kind),
            np.concatenate(biases) if biases else nothing,
            (*(dense(part) for part in some["norm_weights"]), nothing, nothing)[:4], norm, some["eps"],
            weights[at : at + size],
        )  # fmt: skip
        at += size
    activation = ACTIVATIONS.index(one["activation"])
    return Ready(weights, modes, h, directions, gates, activation, norm, one["eps"])


def run_ready(ready: Ready, entering: Tensor | Words, lengths: Tensor | None = None) -> Tensor:
    """What leaves the last block, (b, L, h). With lengths (b,), steps behind them are not computed: zeros."""
    from aireprune.kernels.numba import s5_stack
    from aireprune.kernels.numba.compile import threads

    looked_up = isinstance(entering, Words)
    given = entering.table if isinstance(entering, Words) else entering
    batch, length = entering.codes.shape if isinstance(entering, Words) else entering.shape[:2]
    kind = ready.weights.dtype
    z = np.empty((0, 0, 0), kind) if looked_up else dense(given)
    table = dense(given) if looked_up else np.empty((0, ready.h), kind)
    codes = dense(entering.codes) if isinstance(entering, Words) else np.empty((0, 0), np.int64)
    wanted = np.empty(0, np.int64) if lengths is None else dense(lengths.long())
    most, workers, out = int(ready.modes.max()), threads(), fresh(given, batch, length, ready.h)
    size = s5_stack.room_size(
        length, len(table), most, ready.h, ready.directions, ready.gates, ready.norm, kind.itemsize
    )
    s5_stack.stack(
        z, table, codes, wanted, ready.weights, ready.modes, ready.directions, ready.gates, ready.activation, ready.norm,
        ready.eps, workers, _aligned(workers, size, kind), out.numpy(),
    )  # fmt: skip
    return out


def _aligned(rows: int, size: int, kind: np.dtype) -> np.ndarray:
    """Room (rows, size) from a cache line on; a vector across two lines is loaded twice."""
    items = np.empty(rows * size + _LINE // kind.itemsize, kind)
    first = -items.ctypes.data % _LINE // kind.itemsize
    return items[first : first + rows * size].reshape(rows, size)
