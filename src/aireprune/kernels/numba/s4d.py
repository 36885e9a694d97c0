# mypy: ignore-errors
"""Numba kernels of the S4D scan: channels in vector lanes, modes in registers, time inside.

Channels are taken W at a time, one per lane, sorted by how many modes they hold. A group of W channels stores as many
mode rows as its largest channel holds; the rows of all groups follow each other, and group g owns the rows from
start[g] to start[g + 1].

    params (rows, 4, W)   Re lam, Im lam, Re w, Im w
    channel (groups, W)   which channel a lane is; lanes beyond the last channel repeat channel 0
    run (groups,)         whether the group's channels follow each other in memory
    u, y (batch, L, H)    input and output

A thread walks one sequence in chunks of CHUNK steps; within a chunk it takes a few mode rows at a time, holds their
poles, readouts and states in registers and runs through the chunk's steps. Compilers do not find this arrangement by
themselves (a plain loop takes 5 times as long), so the innermost block is written as LLVM vector instructions.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import kernel
from aireprune.kernels.numba.cpu import REGISTER_BYTES, REGISTERS
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.lanes import VECTOR_BYTES, Lanes

CHUNK = 32


class _Rows:
    """Rows of W numbers in registers: where a register holds fewer, one part of every row after the other."""

    def __init__(self, context, builder, dtype):
        self.v = Lanes(context, builder, dtype, min(REGISTER_BYTES, VECTOR_BYTES))
        self.parts, self.builder = VECTOR_BYTES // (self.v.count * self.v.bytes), builder

    def _place(self, row, part):
        return self.v.index(row, self.parts * self.v.count, part * self.v.count)

    def load(self, pointer, row, part):
        return self.v.load(pointer, self._place(row, part))

    def store(self, value, pointer, row, part):
        self.v.store(value, pointer, self._place(row, part))

    def turn(self, lr, li, xr, xi, plus_r, plus_i):
        """lam x + plus, complex, in as many operations as there are products; plus_i None stands for zero."""
        v = self.v
        r = v.sub(v.add(v.mul(lr, xr), plus_r), v.mul(li, xi))
        i = v.mul(lr, xi) if plus_i is None else v.add(v.mul(lr, xi), plus_i)
        return r, v.add(i, v.mul(li, xr))


def _make_advance(modes):
    """x_t = lam x_{t-1} + u_t, y_t += Re(w x_t) for `modes` mode rows from `first` on, over `steps` steps."""

    @intrinsic
    def advance(typing_context, params, state, u, y, first, steps):
        def codegen(context, builder, signature, args):
            rows = _Rows(context, builder, params.dtype)
            v = rows.v
            p, x, rows_u, rows_y = (
                v.start(kind, value) for kind, value in zip(signature.args[:4], args[:4], strict=True)
            )

            def at(width, m, which):
                """Row `which` of the `width` rows that belong to mode first + m."""
                return v.index(args[4], width, m * width + which)

            for part in range(rows.parts):
                fixed = [[rows.load(p, at(4, m, which), part) for which in range(4)] for m in range(modes)]
                slots = [[v.variable(rows.load(x, at(2, m, which), part)) for which in range(2)] for m in range(modes)]
                with cgutils.for_range(builder, args[5]) as loop:
                    now, out = rows.load(rows_u, loop.index, part), rows.load(rows_y, loop.index, part)
                    for (lr, li, wr, wi), (slot_r, slot_i) in zip(fixed, slots, strict=True):
                        r, i = rows.turn(lr, li, builder.load(slot_r), builder.load(slot_i), now, None)
                        builder.store(r, slot_r)
                        builder.store(i, slot_i)
                        out = v.sub(v.add(out, v.mul(wr, r)), v.mul(wi, i))
                    rows.store(out, rows_y, loop.index, part)
                for m in range(modes):
                    for which in range(2):
                        rows.store(builder.load(slots[m][which]), x, at(2, m, which), part)
            return context.get_dummy_value()

        return types.void(params, state, u, y, types.intp, types.intp), codegen

    return advance


def _make_adjoint(modes):
    """a_t = lam a_{t+1} + g_t, z_t = da_t/dlam = lam z_{t+1} + a_{t+1}; du_t += Re(w a_t); sums of u_t conj(a_t) and of
    u_t conj(z_t), which are those of g_t conj(x_t) and g_t conj(dx_t/dlam) with the states x of the scan.

    state rows: Re a, Im a, Re z, Im z, then the two sums. Steps come in the order of the scan: against time.
    """

    @intrinsic
    def adjoint(typing_context, params, state, g, u, du, first, steps):
        def codegen(context, builder, signature, args):
            rows = _Rows(context, builder, params.dtype)
            v = rows.v
            p, x, rows_g, rows_u, rows_du = (
                v.start(kind, value) for kind, value in zip(signature.args[:5], args[:5], strict=True)
            )

            def at(width, m, which):
                """Row `which` of the `width` rows that belong to mode first + m."""
                return v.index(args[5], width, m * width + which)

            for part in range(rows.parts):
                fixed = [[rows.load(p, at(4, m, which), part) for which in range(4)] for m in range(modes)]
                slots = [[v.variable(rows.load(x, at(8, m, which), part)) for which in range(8)] for m in range(modes)]
                with cgutils.for_range(builder, args[6]) as loop:
                    grad, weight, out = (rows.load(each, loop.index, part) for each in (rows_g, rows_u, rows_du))
                    for (lr, li, wr, wi), slot in zip(fixed, slots, strict=True):
                        ar, ai, zr, zi, of_ar, of_ai, of_zr, of_zi = (builder.load(s) for s in slot)
                        zr, zi = rows.turn(lr, li, zr, zi, ar, ai)
                        ar, ai = rows.turn(lr, li, ar, ai, grad, None)
                        out = v.sub(v.add(out, v.mul(wr, ar)), v.mul(wi, ai))
                        of_ar, of_ai = v.add(of_ar, v.mul(weight, ar)), v.sub(of_ai, v.mul(weight, ai))
                        of_zr, of_zi = v.add(of_zr, v.mul(weight, zr)), v.sub(of_zi, v.mul(weight, zi))
                        for value, place in zip((ar, ai, zr, zi, of_ar, of_ai, of_zr, of_zi), slot, strict=True):
                            builder.store(value, place)
                    rows.store(out, rows_du, loop.index, part)
                for m in range(modes):
                    for which in range(8):
                        rows.store(builder.load(slots[m][which]), x, at(8, m, which), part)
            return context.get_dummy_value()

        return types.void(params, state, g, u, du, types.intp, types.intp), codegen

    return adjoint


advance_4, advance_2, advance_1 = _make_advance(4), _make_advance(2), _make_advance(1)
AT_ONCE = 2 if REGISTERS == 32 else 1  # modes whose states and sums fit the registers
_adjoint_more, _adjoint_1 = _make_adjoint(AT_ONCE), _make_adjoint(1)


@intrinsic
def _copy_rows(typing_context, source, source_at, source_stride, target, target_at, target_stride, steps):
    """One vector per step between element source_at + i source_stride and element target_at + i target_stride."""

    def codegen(context, builder, signature, args):
        v = Lanes(context, builder, source.dtype)
        with cgutils.for_range(builder, args[6]) as loop:
            first = builder.add(args[1], builder.mul(loop.index, args[2]))
            second = builder.add(args[4], builder.mul(loop.index, args[5]))
            v.store(v.load(v.start(source, args[0]), first), v.start(target, args[3]), second)
        return context.get_dummy_value()

    step = types.intp
    return types.void(source, step, step, target, step, step, step), codegen


@intrinsic
def _scale_rows(typing_context, gain, source, target, steps):
    """target_i = gain source_i for vectors i < steps."""

    def codegen(context, builder, signature, args):
        v = Lanes(context, builder, source.dtype)
        g, rows, out = (v.rows(kind, value) for kind, value in zip(signature.args[:3], args[:3], strict=True))
        factor = v.load_row(g, ir.Constant(args[3].type, 0))
        with cgutils.for_range(builder, args[3]) as loop:
            v.store_row(v.mul(factor, v.load_row(rows, loop.index)), out, loop.index)
        return context.get_dummy_value()

    return types.void(gain, source, target, types.intp), codegen


@intrinsic
def _scale_and_weigh(typing_context, gain, g, u, out, total, steps):
    """out_i = gain g_i and total += g_i u_i for vectors i < steps."""

    def codegen(context, builder, signature, args):
        v, zero = Lanes(context, builder, g.dtype), ir.Constant(args[5].type, 0)
        factor, rows_g, rows_u, rows_out, sums = (
            v.rows(kind, value) for kind, value in zip(signature.args[:5], args[:5], strict=True)
        )
        scale, slot = v.load_row(factor, zero), v.variable(v.load_row(sums, zero))
        with cgutils.for_range(builder, args[5]) as loop:
            value = v.load_row(rows_g, loop.index)
            v.store_row(v.mul(scale, value), rows_out, loop.index)
            builder.store(v.multiply_add(value, v.load_row(rows_u, loop.index), builder.load(slot)), slot)
        v.store_row(builder.load(slot), sums, zero)
        return context.get_dummy_value()

    return types.void(gain, g, u, out, total, types.intp), codegen


@kernel()
def place_modes(lam_re, lam_im, w_re, w_im, alive, place, start, params, row):
    """Copy the modes (H, N) that are alive into params, channel c as lane place[c] % W of group place[c] // W.

    row (H, N) tells where each went; of those left out, where the next one goes.
    """
    h, n = alive.shape
    width = params.shape[2]
    for c in range(h):
        group, lane = place[c] // width, place[c] % width
        at = start[group]
        for m in range(n):
            row[c, m] = at
            if alive[c, m]:
                params[at, 0, lane] = lam_re[c, m]
                params[at, 1, lane] = lam_im[c, m]
                params[at, 2, lane] = w_re[c, m]
                params[at, 3, lane] = w_im[c, m]
                at += 1


@njit(inline="always")
def _gather(values, b, base, steps, reverse, channel, run, out):
    """Rows of `out` become the group's lanes of `values` at the chunk's steps, in the order of the scan."""
    length, h, width = values.shape[1], values.shape[2], out.shape[1]
    t, sign = (length - 1 - base, -1) if reverse else (base, 1)
    if run:
        _copy_rows(values, (b * length + t) * h + np.intp(channel[0]), sign * h, out, 0, width, steps)
    else:
        for i in range(steps):
            row, into = values[b, t + sign * i], out[i]
            for k in range(width):
                into[k] = row[channel[k]]


@njit(inline="always")
def _scatter(rows, b, base, steps, reverse, channel, valid, run, out):
    """The way back: the group's lanes of `out` become the rows; lanes from `valid` on belong to no channel."""
    length, h, width = out.shape[1], out.shape[2], rows.shape[1]
    t, sign = (length - 1 - base, -1) if reverse else (base, 1)
    if run:
        _copy_rows(rows, 0, width, out, (b * length + t) * h + np.intp(channel[0]), sign * h, steps)
    else:
        for i in range(steps):
            row, into = rows[i], out[b, t + sign * i]
            for k in range(valid):
                into[channel[k]] = row[k]


@kernel(parallel=True, fastmath={"contract"})
def scan(params, start, channel, run, skip, u, y, parts):
    """y = K * u + skip u, causal. Threads over batch and `parts`."""
    batch, length, h = u.shape
    groups, width = channel.shape
    for job in prange(batch * parts):
        register = flush_denormals()
        b, part = job // parts, job % parts
        state = np.zeros((params.shape[0], 2, width), u.dtype)
        ub = np.empty((CHUNK, width), u.dtype)
        yb = np.empty((CHUNK, width), u.dtype)
        gain = np.zeros(width, u.dtype)
        for base in range(0, length, CHUNK):
            steps = min(CHUNK, length - base)
            for g in range(part, groups, parts):
                _gather(u, b, base, steps, False, channel[g], run[g], ub)
                for k in range(width):
                    gain[k] = skip[channel[g, k]]
                _scale_rows(gain, ub, yb, steps)
                m, end = start[g], start[g + 1]
                while end - m >= 4:
                    advance_4(params, state, ub, yb, m, steps)
                    m += 4
                if end - m >= 2:
                    advance_2(params, state, ub, yb, m, steps)
                    m += 2
                if end > m:
                    advance_1(params, state, ub, yb, m, steps)
                valid = min(width, h - g * width)
                _scatter(yb, b, base, steps, False, channel[g], valid, run[g], y)
        restore_denormals(register)


@kernel(parallel=True, fastmath={"contract"})
def adjoint(params, start, channel, run, skip, u, g, du, sums, of_skip, parts):
    """du, the scan of g against time, and sums (batch, rows, 4, W): Re, Im of sum_t g_t conj(x_t), then of
    sum_t g_t conj(dx_t/dlam). of_skip (batch, groups, W), zeros, gets sum_t g_t u_t. Threads over batch and `parts`."""
    batch, length, h = u.shape
    groups, width = channel.shape
    for job in prange(batch * parts):
        register = flush_denormals()
        b, part = job // parts, job % parts
        state = np.zeros((params.shape[0], 8, width), u.dtype)
        ub = np.empty((CHUNK, width), u.dtype)
        gb = np.empty((CHUNK, width), u.dtype)
        out = np.empty((CHUNK, width), u.dtype)
        gain = np.zeros(width, u.dtype)
        for base in range(0, length, CHUNK):
            steps = min(CHUNK, length - base)
            for group in range(part, groups, parts):
                _gather(u, b, base, steps, True, channel[group], run[group], ub)
                _gather(g, b, base, steps, True, channel[group], run[group], gb)
                for k in range(width):
                    gain[k] = skip[channel[group, k]]
                _scale_and_weigh(gain, gb, ub, out, of_skip[b, group], steps)
                m, end = start[group], start[group + 1]
                while end - m >= AT_ONCE:
                    _adjoint_more(params, state, gb, ub, out, m, steps)
                    m += AT_ONCE
                while end > m:
                    _adjoint_1(params, state, gb, ub, out, m, steps)
                    m += 1
                valid = min(width, h - group * width)
                _scatter(out, b, base, steps, True, channel[group], valid, run[group], du)
        for group in range(part, groups, parts):
            for m in range(start[group], start[group + 1]):
                for part_of in range(4):
                    for k in range(width):
                        sums[b, m, part_of, k] = state[m, 4 + part_of, k]
        restore_denormals(register)
