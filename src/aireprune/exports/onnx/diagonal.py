"""S5 and LRU layers: x_t = lam x_{t-1} + B u_t, y_t = s Re(C x_t) + D u_t, with P modes and h features."""

from __future__ import annotations

import numpy as np
import torch

from aireprune.exports.onnx import chunks as chunked
from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.parts import array
from aireprune.exports.onnx.states import States
from aireprune.models.diagonal import DiagonalLayer

CHUNK = 32  # in onnxruntime 1.31, with 8 to 128 modes: 8 is slower, 64 too with many modes, 16 and 32 are alike


def diagonal_layer(g: Graph, u: str, layer: DiagonalLayer, states: States | None) -> str:
    """u (b, L, h) -> y (b, L, h); of one step (b, h) -> (b, h)."""
    skip = g.op("Mul", u, g.weight("D", array(layer.D)))
    if layer.modes == 0:
        return skip
    y = _whole(g, u, layer) if states is None else _step(g, u, layer, states)
    return g.op("Add", y, skip)


def _arrays(layer: DiagonalLayer) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Poles (P,) and input matrix (P, h), complex; s C of every direction, (h, 2P) for [Re | Im]."""
    with torch.no_grad():
        lam, b = layer.discrete()
        readouts = [layer.readout_scale * array(c) for c in layer.readouts()]
    c = [np.concatenate([part[..., 0], -part[..., 1]], axis=1) for part in readouts]
    return lam.cpu().numpy(), b.cpu().numpy(), c


def _step(g: Graph, u: str, layer: DiagonalLayer, states: States) -> str:
    lam, b, (c,) = _arrays(layer)
    drive = g.op("MatMul", u, g.weight("B", np.concatenate([b.real, b.imag]).astype(np.float32).T))
    re, im = chunked.rotation(g, "poles", lam)
    before = states.before("state", (2 * layer.modes,))
    x = states.after("state", g.op("Add", chunked.rotate(g, before, re, im, layer.modes), drive))
    return g.op("MatMul", x, g.weight("C", c.T))


def _whole(g: Graph, u: str, layer: DiagonalLayer) -> str:
    lam, b, readouts = _arrays(layer)
    width = b.shape[1]
    u, chunks = chunked.split_time(g, u, CHUNK)
    columns = g.op("Transpose", g.reshape(u, -1, width), perm=[1, 0])  # (h, M T)
    parts = (("B.re", b.real), ("B.im", b.imag))
    driven = [g.op("MatMul", g.weight(name, part.astype(np.float32)), columns) for name, part in parts]
    drive = [g.reshape(part, layer.modes, -1, CHUNK) for part in driven]  # Re and Im, (P, M, T) each
    table, outputs = chunked.powers(g, "poles", lam, CHUNK), []
    for number, c in enumerate(readouts):
        x = _scan(g, drive, table, chunks, layer.modes, reverse=bool(number))  # (2, P, M, T)
        rows = g.op("Transpose", g.reshape(x, 2 * layer.modes, -1), perm=[1, 0])
        outputs.append(g.op("MatMul", rows, g.weight(f"C{number + 1}" if len(readouts) > 1 else "C", c.T)))
    y = outputs[0] if len(outputs) == 1 else g.op("Add", *outputs)
    return chunked.join_time(g, y, chunks, width)


def _scan(g: Graph, drive: list[str], table: chunked.Powers, chunks: chunked.Chunks, modes: int, reverse: bool) -> str:
    """All states (2, P, M, T), Re and Im first, from the inputs of the modes, Re and Im (P, M, T)."""
    end = _columns(
        g, *table.at(g, chunked.to_end(CHUNK, reverse))
    )  # what Re and Im add to the end's [Re | Im], (P, T, 2) each
    ends = g.op("Add", *(g.op("MatMul", part, to) for part, to in zip(drive, end, strict=True)))
    before = chunked.carry(g, ends, table, chunks, (modes, 1), reverse)
    inside, across = table.at(g, chunked.toeplitz(CHUNK, reverse)), table.at(g, chunked.from_before(CHUNK, reverse))
    row = [g.op("Unsqueeze", part, g.ints(1)) for part in across]  # (P, 1, T)
    to_re = g.op("Concat", inside[0], g.op("Neg", inside[1]), row[0], g.op("Neg", row[1]), axis=1)
    to_im = g.op("Concat", inside[1], inside[0], row[1], row[0], axis=1)
    matrix = g.op("Concat", *(g.op("Unsqueeze", part, g.ints(0)) for part in (to_re, to_im)), axis=0)
    return g.op("MatMul", g.op("Concat", *drive, before, axis=-1), matrix)


def _columns(g: Graph, re: str, im: str) -> tuple[str, str]:
    """(P, T) of factors -> (P, T, 2): what a real, and what an imaginary input adds to [Re | Im]."""
    a, b, minus = (g.op("Unsqueeze", part, g.ints(2)) for part in (re, im, g.op("Neg", im)))
    return g.op("Concat", a, b, axis=2), g.op("Concat", minus, a, axis=2)
