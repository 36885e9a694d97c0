# mypy: ignore-errors
"""Chunks of independent streams through a whole model, one call, in memory that is there already.

Streams are taken together as long as their rows fit; long chunks pass in pieces of ROWS steps. The model and its layers
are records (`aireprune.kernels.numba.step_codes`), by whose type the family is known; weights are one array.
"""

from __future__ import annotations

from numba import njit, prange
from numba.extending import overload

from aireprune.kernels.numba.compile import keep_apart, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.step_codes import DIAGONAL, MAMBA, MAMBA2, ROWS, S4D
from aireprune.kernels.numba.step_diagonal import diagonal_block
from aireprune.kernels.numba.step_mamba import mamba_block
from aireprune.kernels.numba.step_mamba2 import mamba2_block
from aireprune.kernels.numba.step_rows import answer, are_known, cut, encode
from aireprune.kernels.numba.step_s4d import s4d_block

_BLOCKS = {DIAGONAL: diagonal_block, S4D: s4d_block, MAMBA: mamba_block, MAMBA2: mamba2_block}


def block(z, count, length, stream, model, layer, weights, places, memory, room):
    """In place: `length` rows of z for each of `count` streams from `stream` on, through a layer of any family."""


@overload(block)
def _block(z, count, length, stream, model, layer, weights, places, memory, room):
    family = next(record for record in _BLOCKS if set(layer.fields) == set(record.names))
    run = _BLOCKS[family]
    return lambda z, count, length, stream, model, layer, weights, places, memory, room: run(
        z, count, length, stream, model, layer, weights, places, memory, room
    )


@kernel(error_model="numpy")
def advance(x, tokens, steps, model, layers, weights, places, memory, pooled, seen, room, out):
    """`steps` steps of every stream: x (streams steps, inputs) or tokens (streams steps,) -> out. False: a token is unknown.

    The other of x and tokens is empty. model (1,), layers (layers,): records. weights, places: numbers and indices they
    point at. memory (streams, ..), pooled (streams, features) and seen (streams,) are brought up to date; room (workers, ..)
    is scratch. out: (streams, answers), or (streams steps, answers) in mode tokens.
    """
    if not are_known(tokens, model[0].inputs):
        return False
    register = flush_denormals()
    streams = memory.shape[0]
    _some(0, streams, x, tokens, steps, model, layers, weights, places, memory, pooled, seen, room[0], out)
    restore_denormals(register)
    return True


@kernel(parallel=True, error_model="numpy")
def advance_parallel(x, tokens, steps, model, layers, weights, places, memory, pooled, seen, room, out):
    """`advance` with the streams spread over as many threads as there is room for."""
    known = are_known(tokens, model[0].inputs)
    streams, workers = memory.shape[0], room.shape[0]
    for worker in prange(workers if known else 0):
        register = flush_denormals()
        first, last = worker * streams // workers, (worker + 1) * streams // workers
        _some(first, last, x, tokens, steps, model, layers, weights, places, memory, pooled, seen, room[worker], out)
        restore_denormals(register)
    return known


@njit(error_model="numpy")
def _some(first, last, x, tokens, steps, models, layers, weights, places, memory, pooled, seen, room, out):
    """Streams from `first` to `last`, ROWS rows at a time."""
    keep_apart()
    model = models[0]
    width, together = model.width, max(ROWS // max(steps, 1), 1)
    z, f = cut(room, 0, ROWS, width), cut(room, ROWS * width, ROWS, width)
    logits = cut(room, 2 * ROWS * width, ROWS, model.answers_width)
    rest = room[ROWS * (2 * width + model.answers_width) :]
    for stream in range(first, last, together):
        count = min(together, last - stream)
        for t in range(0, steps, ROWS):
            length, at = min(ROWS, steps - t), stream * steps + t
            encode(x, tokens, at, count * length, model, weights, z)
            for number in range(layers.shape[0]):
                block(z, count, length, stream, model, layers[number], weights, places, memory, rest)
            ended = t + length == steps
            answer(z, count, length, stream, at, ended, model, weights, pooled, seen, f, logits, out)
