# mypy: ignore-errors
"""A chunk of time of the Mamba-2 scan as matrix products, forwards and backwards, for the heads of one group.

T steps, R heads of P channels, N states. With d_t the step of a head, a_t = 2^(d_t A) its decay, x'_t = d_t x_t, S_0 the
state that enters the chunk, and products of decays up_t = a_1 .. a_t, down_t = a_{t+1} .. a_T, D_ts = a_{s+1} .. a_t for
s <= t:

    y_t = up_t S_0 C_t + sum over s <= t of D_ts (C_t . B_s) x'_s          S_T = up_T S_0 + sum over t of down_t x'_t B_t^T

and backwards, with g the gradient of y, G that of S_T, and M_ts = D_ts (C_t . B_s):

    gx'_t = down_t G B_t + sum over t' >= t of M_t't g_t'     gC_t = up_t S_0^T g_t + sum over s <= t of F_ts B_s
    gB_t = down_t G^T x'_t + sum over t' >= t of F_t't C_t'    F_ts = sum over heads of D_ts (g_t . x'_s)
    G_0 = up_T G + sum over t of up_t g_t C_t^T              e_t = g_t . y_t - gx'_t . x'_t + e_{t+1} ,   e_{T+1} = <G, S_T>

with e_t the gradient of ln a_t. Decays are multiplied up, never divided, so that nothing overflows.

Layout: x, B and C of a chunk lie side by side in a buffer (T, W) of flat rows, x from column `x_at` on with every head
filled up to whole vectors (P' columns), B and C likewise (N' columns). States are (N, R P') with rows
up to N', other buffers (T, R P').
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.lanes import aligned_rows
from aireprune.kernels.numba.math import exp2, sigmoid, softplus
from aireprune.kernels.numba.rows import dot, grow, mix, multiply, scale
from aireprune.kernels.numba.strided import FULL, LEFT, LOWER, UPPER, product, transpose

CHUNK = 48  # steps: a multiple of the rows and columns of a tile


@njit(fastmath=FAST, error_model="numpy")
def decays(raw, pole, low, high, rows, delta, decay, up, down):
    """raw (H, CHUNK) is dt + bias, pole (H,) in powers of two; fill delta, decay, up and down, (H, CHUNK) each."""
    keep_apart()
    for h in range(raw.shape[0]):
        from_raw, to_delta, to_decay = raw[h], delta[h], decay[h]
        for t in range(rows):
            to_delta[t] = min(max(softplus(from_raw[t]), low), high)
        for t in range(rows):
            to_decay[t] = exp2(to_delta[t] * pole[h])
        product_up, product_down = raw.dtype.type(1), raw.dtype.type(1)
        for t in range(rows):
            product_up *= to_decay[t]
            up[h, t] = product_up
        for t in range(rows - 1, -1, -1):
            down[h, t] = product_down
            product_down *= to_decay[t]


@njit
def times(factor, head, source, at, stride, rows, heads, width, out):
    """out[t, h] = factor[head + h, t] source[t, h] for the `width` columns of every head h."""
    keep_apart()
    for t in range(rows):
        for h in range(heads):
            places = (at + t * stride + h * width, (t * heads + h) * width)
            scale((source, out), places, (factor[head + h, t],), width)


@njit
def _shrink(state, n_states, up, head, last, heads, width):
    """The state (N, R P') times every head's decay over the whole chunk."""
    keep_apart()
    for n in range(n_states):
        for h in range(heads):
            at = (n * heads + h) * width
            scale((state, state), (at, at), (up[head + h, last],), width)


@njit
def _between(decay, rows, out):
    """D_ts into out (CHUNK, CHUNK), whose first row enters as zeros; zeros behind the diagonal."""
    keep_apart()
    flat = out.reshape(-1)
    out[0, 0] = 1
    for t in range(1, rows):
        scale((flat, flat), ((t - 1) * CHUNK, t * CHUNK), (decay[t],), CHUNK)
        out[t, t] = 1


@njit
def _weigh(a, b, rows, add, out):
    """out_ts (+)= a_ts b_ts"""
    keep_apart()
    first, second, flat = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    top = np.int64(0)
    if add:
        grow((first, second, flat), (top, top, top), (), rows * CHUNK)
    else:
        multiply((first, second, flat), (top, top, top), (), rows * CHUNK)


@njit
def room(rows, width, like):
    """Zeros (rows, width) of an array's type that begin at a vector boundary."""
    return _room(np.int64(rows), np.int64(width), like)


@njit
def _room(rows, width, like):
    keep_apart()
    return aligned_rows(rows, width, like.dtype)


@njit
def line(width, like):
    """Zeros (width,) likewise."""
    return room(1, width, like).reshape(-1)


@njit
def square_rooms(n_states, like):
    """Room for `respond` and `retreat`: B^T (N', CHUNK), C B^T, D, M and F (CHUNK, CHUNK)."""
    return (
        room(n_states, CHUNK, like),
        room(CHUNK, CHUNK, like),
        room(CHUNK, CHUNK, like),
        room(CHUNK, CHUNK, like),
        room(CHUNK, CHUNK, like),
    )


@njit
def head_rooms(heads, like):
    """Room (H, CHUNK) for what `decays` makes."""
    return room(heads, CHUNK, like), room(heads, CHUNK, like), room(heads, CHUNK, like), room(heads, CHUNK, like)


@njit
def advance(act, stride, x_at, b_at, n_states, factors, head, heads, width, rows, state, driven, scaled):
    """The state (N, R P') from the beginning of a chunk to its end; `driven` becomes x'. All flat.

    factors: delta, decay, up, down of all heads, of which `heads` from `head` on are meant.
    """
    keep_apart()
    delta, _, up, down = factors
    columns = heads * width
    times(delta, head, act, x_at, stride, rows, heads, width, driven)
    times(down, head, driven, 0, columns, rows, heads, width, scaled)
    _shrink(state, n_states, up, head, rows - 1, heads, width)
    if n_states:
        product(act, b_at, 1, stride, scaled, 0, columns, state, 0, columns, n_states, rows, columns, FULL, False)


@njit
def respond(act, stride, b_at, c_at, n_states, factors, head, heads, width, rows, state, driven, squares, read, out):
    """y without the skip into `out` (T, R P') from the state that enters and from x', by `read`, room of that size."""
    keep_apart()
    _, decay, up, _ = factors
    columns = heads * width
    flipped, matches, between, weights, _ = squares
    if not n_states:
        out[: rows * columns] = 0
        return
    product(act, c_at, stride, 1, state, 0, columns, read, 0, columns, rows, n_states, columns, FULL, True)
    times(up, head, read, 0, columns, rows, heads, width, out)
    transpose(act, b_at, stride, rows, n_states, flipped.reshape(-1), CHUNK)
    product(
        act, c_at, stride, 1, flipped.reshape(-1), 0, CHUNK, matches.reshape(-1), 0, CHUNK, rows, n_states, rows, LEFT, True
    )  # fmt: skip
    for h in range(heads):
        _between(decay[head + h], rows, between)
        _weigh(matches, between, rows, False, weights)
        at = h * width
        product(
            weights.reshape(-1), 0, CHUNK, 1, driven, at, columns, out, at, columns, rows, rows, width, LOWER, False
        )  # fmt: skip


@njit
def retreat(
    act, stride, b_at, c_at, n_states, factors, head, heads, width, rows, state, driven, squares,
    g, gstate, flips, rooms, gdriven, gact,
):  # fmt: skip
    """Backwards through a chunk: g (T, R P') is the gradient of y; gdriven becomes that of x', gact at B and C that of
    B and C, and gstate (N, R P'), that of the state at the end, that of the one at the beginning.

    flips: two rooms (R P', N'). rooms: three (T, R P'), and one (R P', CHUNK).
    """
    keep_apart()
    _, decay, up, down = factors
    columns, padded = heads * width, flips[0].shape[1]
    flipped, matches, between, weights, forces = squares
    if not n_states:
        gdriven[: rows * columns] = 0
        return
    raised, lowered, read, by_channel = rooms
    flat_matches, flat_weights, flat_forces = matches.reshape(-1), weights.reshape(-1), forces.reshape(-1)
    times(up, head, g, 0, columns, rows, heads, width, raised)
    times(down, head, driven, 0, columns, rows, heads, width, lowered)
    transpose(state, 0, columns, n_states, columns, flips[0].reshape(-1), padded)
    transpose(gstate, 0, columns, n_states, columns, flips[1].reshape(-1), padded)
    transpose(driven, 0, columns, rows, columns, by_channel, CHUNK)
    transpose(act, b_at, stride, rows, n_states, flipped.reshape(-1), CHUNK)
    of_state, of_gstate, of_b = flips[0].reshape(-1), flips[1].reshape(-1), flipped.reshape(-1)
    product(raised, 0, columns, 1, of_state, 0, padded, gact, c_at, stride, rows, columns, n_states, FULL, True)
    product(lowered, 0, columns, 1, of_gstate, 0, padded, gact, b_at, stride, rows, columns, n_states, FULL, True)
    product(act, b_at, stride, 1, gstate, 0, columns, read, 0, columns, rows, n_states, columns, FULL, True)
    times(down, head, read, 0, columns, rows, heads, width, gdriven)
    product(act, c_at, stride, 1, of_b, 0, CHUNK, flat_matches, 0, CHUNK, rows, n_states, rows, LEFT, True)
    for h in range(heads):
        at = h * width
        _between(decay[head + h], rows, between)
        _weigh(matches, between, rows, False, weights)
        product(flat_weights, 0, 1, CHUNK, g, at, columns, gdriven, at, columns, rows, rows, width, UPPER, False)
        product(g, at, columns, 1, by_channel, at * CHUNK, CHUNK, flat_weights, 0, CHUNK, rows, width, rows, LEFT, True)
        _weigh(weights, between, rows, h > 0, forces)
    product(flat_forces, 0, CHUNK, 1, act, b_at, stride, gact, c_at, stride, rows, rows, n_states, LOWER, False)
    product(flat_forces, 0, 1, CHUNK, act, c_at, stride, gact, b_at, stride, rows, rows, n_states, UPPER, False)
    _shrink(gstate, n_states, up, head, rows - 1, heads, width)
    product(act, c_at, 1, stride, raised, 0, columns, gstate, 0, columns, n_states, rows, columns, FULL, False)


@njit
def overlap(state, gstate, n_states, heads, width, out):
    """<G, S> of every head into out (R,)."""
    keep_apart()
    out[:heads] = 0
    for n in range(n_states):
        for h in range(heads):
            at = (n * heads + h) * width
            out[h] += dot(state, at, gstate, at, width)


@njit
def settle(
    x, x_at, stride, y, g, gdriven, factors, head, heads, width, rows, pole, skip, raw, low, high, late, sums, gx, graw
):
    """Gradients of x and of dt + bias of a chunk, and its parts of those of A and D.

    x and gx lie as in `act`, y (without the skip), g and gdriven are (T, R P'). late (R,): <G, S_T>. sums (2, H): of A, in
    powers of two, and of D; they grow. graw (H, CHUNK).
    """
    keep_apart()
    delta, columns, ln2 = factors[0], heads * width, y.dtype.type(np.log(2.0))
    for h in range(heads):
        e, gpole, gskip, direct = late[h], y.dtype.type(0), y.dtype.type(0), skip[head + h]
        for t in range(rows - 1, -1, -1):
            at, here, step = t * columns + h * width, x_at + t * stride + h * width, delta[head + h, t]
            driven = dot(x, here, gdriven, at, width)
            e += dot(y, at, g, at, width) - step * driven
            gskip += dot(x, here, g, at, width)
            gpole += step * e
            graw[head + h, t] = driven + ln2 * pole[head + h] * e
            mix((gdriven, g, gx), (at, at, here), (step, direct), width)
        sums[0, head + h] += ln2 * gpole
        sums[1, head + h] += gskip
    _through_softplus(raw, head, heads, rows, low, high, graw)


@njit(fastmath=FAST, error_model="numpy")
def _through_softplus(raw, head, heads, rows, low, high, graw):
    """From gradients of the clipped steps to those of dt + bias."""
    zero = raw.dtype.type(0)
    for h in range(head, head + heads):
        values, grads = raw[h], graw[h]
        for t in range(rows):
            inside = low <= softplus(values[t]) <= high
            grads[t] = grads[t] * sigmoid(values[t]) if inside else zero
