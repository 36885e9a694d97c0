# mypy: ignore-errors
"""The diagonal recurrence over the rows of a matrix with the states held in vector registers.

    x_t = lam x_{t-1} + v_t,  rows [Re | Im] of 2P numbers

Modes are taken in vectors, several at a time so that one vector's arithmetic hides the latency of another's. A vector
that would reach past the last mode is moved back to end there; it repeats modes of its neighbour and writes the same
numbers, so any number of modes costs whole vectors and nothing else. Fewer modes than a vector has lanes use
narrower vectors.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import keep_apart
from aireprune.kernels.numba.cpu import REGISTER_BYTES
from aireprune.kernels.numba.lanes import Lanes

_TOGETHER = 4 if REGISTER_BYTES == 64 else 2  # vectors of modes in flight


def _modes(most: int, together: int):
    """An intrinsic that runs the recurrence for `together` vectors of at most `most` modes from mode `first` on."""

    @intrinsic
    def modes(context, lr, li, first, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride):
        whole = types.int64
        signature = types.void(lr, li, whole, state, whole, v, whole, whole, whole, x, whole, whole)

        def codegen(context, builder, signature, args):
            kind, integer = signature.args[0].dtype, ir.IntType(64)
            lanes = Lanes(context, builder, kind, min(most * kind.bitwidth // 8, REGISTER_BYTES))
            lr, li, state, v, x = (lanes.start(signature.args[i], args[i]) for i in (0, 1, 3, 5, 9))
            first, state_at, v_at, v_stride, rows, x_at, x_stride = (args[i] for i in (2, 4, 6, 7, 8, 10, 11))
            p = builder.extract_value(context.make_array(signature.args[0])(context, builder, args[0]).shape, 0)
            limit, re_at = builder.sub(p, integer(lanes.count)), []
            for number in range(together):
                at = builder.add(first, integer(number * lanes.count))
                re_at.append(builder.select(builder.icmp_signed("<", at, limit), at, limit))
            im_at = [builder.add(at, p) for at in re_at]
            pole_r, pole_i = [lanes.load(lr, at) for at in re_at], [lanes.load(li, at) for at in re_at]
            minus_i = [builder.fneg(pole) for pole in pole_i]
            re_0, im_0 = ([lanes.load(state, builder.add(state_at, at)) for at in ats] for ats in (re_at, im_at))
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            t, v_row, x_row = builder.phi(integer), builder.phi(integer), builder.phi(integer)
            re, im = [builder.phi(lanes.vector) for _ in re_at], [builder.phi(lanes.vector) for _ in re_at]
            new_re, new_im = [], []
            for number in range(together):
                v_re = lanes.load(v, builder.add(v_row, re_at[number]))
                v_im = lanes.load(v, builder.add(v_row, im_at[number]))
                half_re = lanes.multiply_add(minus_i[number], im[number], v_re)
                half_im = lanes.multiply_add(pole_i[number], re[number], v_im)
                new_re.append(lanes.multiply_add(pole_r[number], re[number], half_re))
                new_im.append(lanes.multiply_add(pole_r[number], im[number], half_im))
                lanes.store(new_re[number], x, builder.add(x_row, re_at[number]))
                lanes.store(new_im[number], x, builder.add(x_row, im_at[number]))
            following = builder.add(t, integer(1))
            for phi, start, then in (
                (t, integer(0), following),
                (v_row, v_at, builder.add(v_row, v_stride)),
                (x_row, x_at, builder.add(x_row, x_stride)),
                *zip(re, re_0, new_re, strict=True),
                *zip(im, im_0, new_im, strict=True),
            ):
                phi.add_incoming(start, before)
                phi.add_incoming(then, loop)
            builder.cbranch(builder.icmp_signed("<", following, rows), loop, after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return signature, codegen

    return modes


_four, _three, _two, _one = (_modes(REGISTER_BYTES, together) for together in (4, 3, 2, 1))
_modes_8, _modes_4, _modes_2, _modes_1 = (_modes(n, 2) for n in (8, 4, 2, 1))


@njit
def recurrence(lr, li, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride):
    """From a state over `rows` rows of v into rows of x.

    state_at, v_at, x_at: where the state, the first row of v and the first row of x begin, counted in numbers, as the
    strides are. Negative strides go backwards; x_stride 0 keeps only the last state.
    """
    keep_apart()
    p = lr.shape[0]
    lanes = REGISTER_BYTES // lr.itemsize
    if rows == 0:
        return
    if p >= lanes:
        for first in range(0, p, lanes * _TOGETHER):
            vectors = min(_TOGETHER, (p - first + lanes - 1) // lanes)
            if vectors == 4:
                _four(lr, li, first, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
            elif vectors == 3:
                _three(lr, li, first, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
            elif vectors == 2:
                _two(lr, li, first, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
            else:
                _one(lr, li, first, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
    elif p >= 8:
        _modes_8(lr, li, 0, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
    elif p >= 4:
        _modes_4(lr, li, 0, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
    elif p >= 2:
        _modes_2(lr, li, 0, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
    elif p == 1:
        _modes_1(lr, li, 0, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride)
