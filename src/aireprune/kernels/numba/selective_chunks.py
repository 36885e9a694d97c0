# mypy: ignore-errors
"""A chunk of time of the selective scan in training, one vector of channels at a time: its states and decays fit the
first-level cache.

T steps, N' states (whole vectors of them), W channels to a vector; with d the step of a channel, p_n its pole in powers of
two, and g the gradient of y:

    a_tn = 2^(d_t p_n)      h_tn = a_tn h_{t-1,n} + d_t x_t B_tn      y_t = skip x_t + sum over n of C_tn h_tn
    G_tn = g_t C_tn + a_{t+1,n} G_{t+1,n}      gB_tn = sum over channels of G_tn d_t x_t      gC_tn = sum of g_t h_tn
    gx_t = d_t sum over n of G_tn B_tn + skip g_t
    gd_t = x_t sum over n of G_tn B_tn + ln(2) sum over n of G_tn a_tn h_{t-1,n} p_n

Rows of channels are `stride` apart, those that hold B and C `apart`; all arrays are flat.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.numba.cpu import REGISTER_BYTES
from aireprune.kernels.numba.lanes import Lanes

CHUNK = 24  # steps; with 16 states and vectors of 32 bytes, states and decays take 25 KB
UNROLL = 4


def _make_rise(keeps):
    """Forwards: y, and with `keeps` the states (T + 1, N', W), the first of which is given, and decays (T, N', W).

    Otherwise `held` (N', W) is the state, before and after.
    """

    @intrinsic
    def rise(typing_context, x, delta, skip, pole, gates, held, decays, y, column, stride, b_at, c_at, apart, n, rows):
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, x.dtype, REGISTER_BYTES)
            x_, delta_, skip_, pole_, gates_, held_, decays_, y_ = (
                v.start(signature.args[i], args[i]) for i in range(8)
            )
            column, stride, b_at, c_at, apart, n, rows = args[8:]
            integer = ir.IntType(64)
            size = builder.mul(n, integer(v.count))
            direct = v.load(skip_, column)
            with cgutils.for_range(builder, rows) as loop:
                at = builder.add(column, builder.mul(loop.index, stride))
                here = builder.mul(loop.index, apart)
                step, u = v.load(delta_, at), v.load(x_, at)
                drive, out = v.mul(step, u), v.variable(v.mul(direct, u))
                before = builder.mul(loop.index, size) if keeps else integer(0)
                after = builder.add(before, size) if keeps else before
                b_row, c_row = builder.add(here, b_at), builder.add(here, c_at)
                with cgutils.for_range(builder, builder.sdiv(n, integer(UNROLL))) as block:
                    for k in range(UNROLL):
                        state = builder.add(builder.mul(block.index, integer(UNROLL)), integer(k))
                        place = builder.mul(state, integer(v.count))
                        p = v.load(pole_, builder.add(column, builder.mul(state, stride)))
                        decay = v.exp2(v.mul(step, p))
                        old = v.load(held_, builder.add(before, place))
                        new = v.add(v.mul(decay, old), v.mul(drive, v.broadcast(gates_, builder.add(b_row, state))))
                        v.store(new, held_, builder.add(after, place))
                        if keeps:
                            v.store(decay, decays_, builder.add(before, place))
                        read = v.broadcast(gates_, builder.add(c_row, state))
                        builder.store(v.add(builder.load(out), v.mul(new, read)), out)
                v.store(builder.load(out), y_, at)
            return context.get_dummy_value()

        i = types.int64
        return types.void(x, delta, skip, pole, gates, held, decays, y, i, i, i, i, i, i, i), codegen

    return rise


rise, rise_and_keep = _make_rise(False), _make_rise(True)


class _Totals:
    """The totals of as many vectors as one has lanes, in one vector: pairs are added up as soon as there are two alike."""

    def __init__(self, v):
        self.v, self.waiting = v, []

    def push(self, vector):
        size = 1
        while self.waiting and self.waiting[-1][0] == size:
            vector, size = self._joined(self.waiting.pop()[1], vector, size), 2 * size
        self.waiting.append((size, vector))

    def total(self):
        ((_, vector),) = self.waiting
        return vector

    def _joined(self, a, b, size):
        v, word = self.v, ir.IntType(32)

        def lanes(shift):
            found = []
            for lane in range(v.count):
                first, within = lane - lane % (2 * size), lane % (2 * size)
                found.append(first + shift + (within if within < size else v.count + within - size))
            return ir.Constant(ir.VectorType(word, v.count), [word(lane) for lane in found])

        return v.add(v.builder.shuffle_vector(a, b, lanes(0)), v.builder.shuffle_vector(a, b, lanes(size)))


@intrinsic
def fall(
    typing_context, x, delta, raw, g, skip, pole, gates, held, decays, gstate, gpole, gskip, gx, graw, ggates,
    column, stride, b_at, c_at, apart, n, rows,
):  # fmt: skip
    """Backwards through what `rise_and_keep` has kept. gstate, gpole (N', stride), gskip (stride,) and ggates, which lies as
    `gates` does, grow or are brought on; gx becomes the gradient of x, but for that through the gates, and graw that of dt
    plus bias.
    """

    def codegen(context, builder, signature, args):
        v = Lanes(context, builder, x.dtype, REGISTER_BYTES)
        arrays = [v.start(signature.args[i], args[i]) for i in range(15)]
        x_, delta_, raw_, g_, skip_, pole_, gates_, held_, decays_, gstate_, gpole_, gskip_, gx_, graw_, ggates_ = (
            arrays
        )
        column, stride, b_at, c_at, apart, n, rows = args[15:]
        integer = ir.IntType(64)
        size, direct = builder.mul(n, integer(v.count)), v.load(skip_, column)
        skipped = v.variable(v.load(gskip_, column))
        with cgutils.for_range(builder, rows) as loop:
            t = builder.sub(builder.sub(rows, integer(1)), loop.index)
            at, here = builder.add(column, builder.mul(t, stride)), builder.mul(t, apart)
            before = builder.mul(t, size)
            after = builder.add(before, size)
            step, u, up = v.load(delta_, at), v.load(x_, at), v.load(g_, at)
            drive, driven, slowed = v.mul(step, u), v.variable(v.zero()), v.variable(v.zero())
            with cgutils.for_range(builder, builder.sdiv(n, integer(v.count))) as block:
                first = builder.mul(block.index, integer(v.count))
                b_row, c_row = (builder.add(builder.add(here, place), first) for place in (b_at, c_at))
                to_b, to_c = _Totals(v), _Totals(v)
                for k in range(v.count):
                    state = builder.add(first, integer(k))
                    place, channel = (
                        builder.mul(state, integer(v.count)),
                        builder.add(column, builder.mul(state, stride)),
                    )
                    into = v.broadcast(gates_, builder.add(b_row, integer(k)))
                    out_of = v.broadcast(gates_, builder.add(c_row, integer(k)))
                    grown = v.add(v.load(gstate_, channel), v.mul(up, out_of))
                    to_c.push(v.mul(up, v.load(held_, builder.add(after, place))))
                    to_b.push(v.mul(grown, drive))
                    builder.store(v.add(builder.load(driven), v.mul(grown, into)), driven)
                    back = v.mul(grown, v.load(decays_, builder.add(before, place)))
                    v.store(back, gstate_, channel)
                    pull = v.mul(back, v.load(held_, builder.add(before, place)))
                    builder.store(v.add(builder.load(slowed), v.mul(pull, v.load(pole_, channel))), slowed)
                    v.store(v.add(v.load(gpole_, channel), v.mul(pull, step)), gpole_, channel)
                for row, totals in ((b_row, to_b), (c_row, to_c)):
                    v.store(v.add(v.load(ggates_, row), totals.total()), ggates_, row)
            of_drive = builder.load(driven)
            of_step = v.add(v.mul(v.constant(math.log(2)), builder.load(slowed)), v.mul(of_drive, u))
            opened = v.damped(v.constant(1.0), v.mul(v.load(raw_, at), v.constant(-LOG2E)))
            v.store(v.mul(of_step, opened), graw_, at)
            v.store(v.add(v.mul(of_drive, step), v.mul(up, direct)), gx_, at)
            builder.store(v.add(builder.load(skipped), v.mul(up, u)), skipped)
        v.store(builder.load(skipped), gskip_, column)
        return context.get_dummy_value()

    i = types.int64
    arrays = (x, delta, raw, g, skip, pole, gates, held, decays, gstate, gpole, gskip, gx, graw, ggates)
    return types.void(*arrays, i, i, i, i, i, i, i), codegen
