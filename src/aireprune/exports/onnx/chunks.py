"""Linear recurrences with constant poles as matrix products over chunks of time.

Shapes: G groups of modes (modes of S5, channels of S4D), N modes of a group, b batch, C chunks of T steps, M = b C.

Within a chunk x_t = sum_s lam^(t-s) v_s + lam^(t+1) x_before is a product with a matrix of powers; from chunk to chunk the
states are carried by a recurrence of C steps instead of C T. The powers are made in the graph, in double precision, from
logarithms of the poles: engines fold them when they load a file, which stays as small as the poles are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aireprune.exports.onnx.graph import Graph

SMALLEST_LOG = -700.0  # exp of this is zero in single precision, and times zero it is still a number
FLOAT = 1  # TensorProto.FLOAT


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """A sequence in chunks. steps: how many there were before it was filled up with zeros; batch: how many sequences."""

    size: int
    steps: str
    batch: str


def split_time(g: Graph, u: str, size: int) -> tuple[str, Chunks]:
    """u (b, L, h) -> (b, C T, h), the end filled up with zeros."""
    steps = g.size(u, 1)
    missing = g.op("Mod", g.op("Neg", steps), g.ints(size))
    u = g.op("Pad", u, g.op("Concat", g.ints(0, 0, 0, 0), missing, g.ints(0), axis=0))
    return u, Chunks(size=size, steps=steps, batch=g.size(u, 0))


def join_time(g: Graph, y: str, chunks: Chunks, width: int) -> str:
    """y (b C T, h) -> (b, L, h)."""
    y = g.reshape(y, chunks.batch, -1, width)
    return g.op("Slice", y, g.ints(0), chunks.steps, g.ints(1))


@dataclass(frozen=True, kw_only=True)
class Powers:
    """lam^0 … lam^T of poles (...,), as two values (..., T + 1) in double precision."""

    re: str
    im: str

    def at(self, g: Graph, exponents: np.ndarray) -> tuple[str, str]:
        """Re and Im of lam^exponents (..., *exponents.shape); a negative exponent stands for zero."""
        chosen, known = g.constant(np.maximum(exponents, 0)), g.constant((exponents >= 0).astype(np.float64))
        parts = (g.op("Mul", g.op("Gather", part, chosen, axis=-1), known) for part in (self.re, self.im))
        re, im = (g.op("Cast", part, to=FLOAT) for part in parts)
        return re, im


def powers(g: Graph, name: str, lam: np.ndarray, size: int) -> Powers:
    """Powers of poles (...,) up to the length of a chunk."""
    with np.errstate(divide="ignore"):
        logs = np.log(lam.astype(np.complex128))
    radius = g.weight(f"{name}.log_radius", np.maximum(logs.real, SMALLEST_LOG)[..., None])
    angle = g.weight(f"{name}.angle", logs.imag[..., None])
    exponents = g.constant(np.arange(size + 1.0))
    length, turn = g.op("Exp", g.op("Mul", radius, exponents)), g.op("Mul", angle, exponents)
    return Powers(re=g.op("Mul", length, g.op("Cos", turn)), im=g.op("Mul", length, g.op("Sin", turn)))


def toeplitz(size: int, reverse: bool = False) -> np.ndarray:
    """Exponents (T, T) of the powers by which the input of step s (a row) reaches step t (a column)."""
    step = np.arange(size)
    later = step[None, :] - step[:, None]
    return -later if reverse else later


def from_before(size: int, reverse: bool = False) -> np.ndarray:
    """Exponents (T,) by which the state before a chunk reaches step t."""
    exponents = np.arange(1, size + 1)
    return exponents[::-1].copy() if reverse else exponents


def to_end(size: int, reverse: bool = False) -> np.ndarray:
    """Exponents (T,) by which the input of step s reaches the end of its chunk."""
    return from_before(size, not reverse) - 1


def rotation(g: Graph, name: str, lam: np.ndarray) -> tuple[str, str]:
    """What `rotate` takes to multiply with poles (..., N): real and imaginary parts, (..., 2N)."""
    re = g.weight(f"{name}.re", np.concatenate([lam.real, lam.real], axis=-1).astype(np.float32))
    return re, g.weight(f"{name}.im", np.concatenate([-lam.imag, lam.imag], axis=-1).astype(np.float32))


def rotate(g: Graph, x: str, re: str, im: str, modes: int) -> str:
    """x (..., 2N) of [Re | Im] times numbers whose real parts are re and imaginary parts im, (..., 2N) as [-im | im]."""
    swapped = g.constant(np.roll(np.arange(2 * modes), modes))
    turned = g.op("Mul", g.op("Gather", x, swapped, axis=-1), im)
    return g.op("Add", g.op("Mul", x, re), turned)


def carry(g: Graph, ends: str, decay: Powers, chunks: Chunks, shape: tuple[int, int], reverse: bool = False) -> str:
    """What a chunk begins with: ends (G, M, 2N), what each chunk adds to the state at its end -> (G, M, 2N).

    decay: powers of the poles (G, N) up to the chunk's length. shape: (G, N).
    """
    groups, modes = shape
    last = np.array([chunks.size])
    re, im = (g.op("Unsqueeze", part, g.ints(1)) for part in _flat(g, decay.at(g, last), shape))
    both, turning = g.op("Concat", re, re, axis=-1), g.op("Concat", g.op("Neg", im), im, axis=-1)  # (G, 1, 2N)

    def step(body: Graph, state: str, inputs: Sequence[str]) -> tuple[str, str]:
        after = body.op("Add", rotate(body, state, both, turning, modes), inputs[0])
        return after, body.op("Identity", state)

    begin = g.op("Expand", g.constant(0.0), g.op("Concat", g.ints(groups), chunks.batch, g.ints(2 * modes), axis=0))
    per_chunk = g.reshape(ends, groups, chunks.batch, -1, 2 * modes)
    _, before = g.scan(step, begin, [per_chunk], axis=2, reverse=reverse)
    return g.reshape(before, groups, -1, 2 * modes)


def _flat(g: Graph, parts: tuple[str, str], shape: tuple[int, int]) -> list[str]:
    return [g.reshape(part, *shape) for part in parts]
