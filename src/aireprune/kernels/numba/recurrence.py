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
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.gemm import VECTOR, keep_apart

_TOGETHER = 4 if VECTOR == 64 else 2  # vectors of modes in flight


def _modes(most: int, together: int):
    """An intrinsic that runs the recurrence for `together` vectors of at most `most` modes from mode `first` on."""

    @intrinsic
    def modes(context, lr, li, first, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride):
        whole = types.int64
        signature = types.void(lr, li, whole, state, whole, v, whole, whole, whole, x, whole, whole)

        def codegen(context, builder, signature, args):
            kind = signature.args[0].dtype
            lanes, integer = min(most, VECTOR // (kind.bitwidth // 8)), ir.IntType(64)
            vector = ir.VectorType(context.get_data_type(kind), lanes)
            arrays = [context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 1, 3, 5, 9)]
            lr, li, state, v, x = (array.data for array in arrays)
            first, state_at, v_at, v_stride, rows, x_at, x_stride = (args[i] for i in (2, 4, 6, 7, 8, 10, 11))
            p = builder.extract_value(arrays[0].shape, 0)
            limit = builder.sub(p, integer(lanes))
            name = f"llvm.fma.v{lanes}f{kind.bitwidth}"
            fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)

            def pointer(base, at):
                return builder.bitcast(builder.gep(base, [at]), vector.as_pointer())

            def load(base, at):
                return builder.load(pointer(base, at), align=kind.bitwidth // 8)

            def store(value, base, at):
                builder.store(value, pointer(base, at), align=kind.bitwidth // 8)

            re_at = []
            for number in range(together):
                at = builder.add(first, integer(number * lanes))
                re_at.append(builder.select(builder.icmp_signed("<", at, limit), at, limit))
            im_at = [builder.add(at, p) for at in re_at]
            pole_r, pole_i = [load(lr, at) for at in re_at], [load(li, at) for at in re_at]
            minus_i = [builder.fneg(pole) for pole in pole_i]
            re_0, im_0 = ([load(state, builder.add(state_at, at)) for at in ats] for ats in (re_at, im_at))
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            t, v_row, x_row = builder.phi(integer), builder.phi(integer), builder.phi(integer)
            re, im = [builder.phi(vector) for _ in re_at], [builder.phi(vector) for _ in re_at]
            new_re, new_im = [], []
            for number in range(together):
                v_re = load(v, builder.add(v_row, re_at[number]))
                v_im = load(v, builder.add(v_row, im_at[number]))
                half_re = builder.call(fma, [minus_i[number], im[number], v_re])
                half_im = builder.call(fma, [pole_i[number], re[number], v_im])
                new_re.append(builder.call(fma, [pole_r[number], re[number], half_re]))
                new_im.append(builder.call(fma, [pole_r[number], im[number], half_im]))
                store(new_re[number], x, builder.add(x_row, re_at[number]))
                store(new_im[number], x, builder.add(x_row, im_at[number]))
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


_four, _three, _two, _one = (_modes(VECTOR, together) for together in (4, 3, 2, 1))
_modes_8, _modes_4, _modes_2, _modes_1 = (_modes(n, 2) for n in (8, 4, 2, 1))


@njit
def recurrence(lr, li, state, state_at, v, v_at, v_stride, rows, x, x_at, x_stride):
    """From a state over `rows` rows of v into rows of x. state_at, v_at, x_at: where state, first row of v and first row
    of x begin, in numbers; strides likewise, negative to go backwards; x_stride 0 keeps only the last state."""
    keep_apart()
    p = lr.shape[0]
    lanes = VECTOR // lr.itemsize
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
