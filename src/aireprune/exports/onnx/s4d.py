"""The state space part of S4D: in each of H channels y = K * u + D u with K_l = Re sum_j w_j lam_j^l over N modes."""

from __future__ import annotations

import numpy as np
import torch

from aireprune.exports.onnx import chunks as chunked
from aireprune.exports.onnx.graph import Graph
from aireprune.exports.onnx.parts import array
from aireprune.exports.onnx.states import States
from aireprune.models.s4d import S4DLayer

CHUNK = 64


def s4d_ssm(g: Graph, u: str, layer: S4DLayer, states: States | None) -> str:
    """u (b, L, H) -> y (b, L, H); of one step (b, H) -> (b, H)."""
    lam, w = _modes(layer)
    skip = array(layer.D)
    if lam.shape[1] == 0:
        return g.op("Mul", u, g.weight("D", skip))
    return _whole(g, u, lam, w, skip) if states is None else _step(g, u, (lam, w, skip), states)


def _modes(layer: S4DLayer) -> tuple[np.ndarray, np.ndarray]:
    """Poles and gains (H, N) of the modes that are not silent, as many as the channel with most of them has."""
    with torch.no_grad():
        lam, w = (part.cpu().numpy() for part in layer.kernel.discrete())
    first = np.argsort(w == 0, axis=1, kind="stable")[:, : int((w != 0).sum(axis=1).max(initial=0))]
    return np.take_along_axis(lam, first, 1), np.take_along_axis(w, first, 1)


def _step(g: Graph, u: str, layer: tuple[np.ndarray, np.ndarray, np.ndarray], states: States) -> str:
    lam, w, skip = layer
    channels, modes = lam.shape
    re, im = chunked.rotation(g, "poles", lam)
    drive = g.op("Unsqueeze", u, g.ints(2))
    unit = g.constant(np.repeat(np.array([1, 0], np.float32), modes))  # B is one in every mode
    turned = chunked.rotate(g, states.before("state", (channels, 2 * modes)), re, im, modes)
    x = states.after("state", g.op("Add", turned, g.op("Mul", drive, unit)))
    gains = g.weight("gains", np.concatenate([w.real, -w.imag], 1).astype(np.float32))
    y = g.op("ReduceSum", g.op("Mul", x, gains), g.ints(-1), keepdims=0)
    return g.op("Add", y, g.op("Mul", u, g.weight("D", skip)))


def _whole(g: Graph, u: str, lam: np.ndarray, w: np.ndarray, skip: np.ndarray) -> str:
    channels, modes = lam.shape
    u, chunks = chunked.split_time(g, u, CHUNK)
    rows = g.op("Transpose", g.reshape(u, -1, channels), perm=[1, 0])
    rows = g.reshape(rows, channels, -1, CHUNK)  # (H, M, T)
    table = chunked.powers(g, "poles", lam, CHUNK)
    end = g.op("Concat", *table.at(g, chunked.to_end(CHUNK)), axis=1)  # (H, 2N, T)
    ends = g.op("MatMul", rows, g.op("Transpose", end, perm=[0, 2, 1]))
    before = chunked.carry(g, ends, table, chunks, (channels, modes))
    matrix = g.op("Concat", *_responses(g, table, w, skip), axis=1)  # (H, T + 2N, T)
    y = g.op("MatMul", g.op("Concat", rows, before, axis=-1), matrix)
    return chunked.join_time(g, g.op("Transpose", g.reshape(y, channels, -1), perm=[1, 0]), chunks, channels)


def _responses(g: Graph, table: chunked.Powers, w: np.ndarray, skip: np.ndarray) -> tuple[str, str]:
    """What inputs (H, T, T) and the state before a chunk (H, 2N, T) add to its outputs; D is part of the former."""
    gains = [g.weight(name, part[..., None].astype(np.float32)) for name, part in (("w.re", w.real), ("w.im", w.imag))]
    kernel = g.op("ReduceSum", _times(g, gains, table.at(g, np.arange(CHUNK)))[0], g.ints(1), keepdims=0)  # (H, T)
    now = g.constant((np.arange(CHUNK) == 0).astype(np.float32))
    kernel = g.op("Add", kernel, g.op("Mul", g.weight("D", skip[:, None]), now))
    lags = chunked.toeplitz(CHUNK)
    inside = g.op("Gather", kernel, g.constant(np.maximum(lags, 0)), axis=-1)
    inside = g.op("Mul", inside, g.constant((lags >= 0).astype(np.float32)))
    re, im = _times(g, gains, table.at(g, chunked.from_before(CHUNK)))
    return inside, g.op("Concat", re, g.op("Neg", im), axis=1)


def _times(g: Graph, one: list[str], other: tuple[str, str]) -> tuple[str, str]:
    """The product of complex numbers in two parts each."""
    (a, b), (c, d) = one, other
    re = g.op("Sub", g.op("Mul", a, c), g.op("Mul", b, d))
    return re, g.op("Add", g.op("Mul", a, d), g.op("Mul", b, c))
