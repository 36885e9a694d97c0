# mypy: ignore-errors
"""Matrix products of small operands that lie anywhere in memory: rows, columns or parts of buffers, transposed or not.

    out[i, j] (+)= sum over q of a[i, q] * b[q, j]

A factor a is read number by number, so its rows and terms may be any distance apart; b and out are read and written in whole
vectors along j. Nothing is packed: what a chunk of time multiplies is in cache already.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import keep_apart
from aireprune.kernels.numba.cpu import REGISTER_BYTES, REGISTERS
from aireprune.kernels.numba.lanes import Lanes

STEP = 12 if REGISTERS == 32 else 6  # rows of a tile
FULL = 0
LOWER = 1  # a[i, q] is 0 for q > i: terms beyond a tile's last row are left out
UPPER = 2  # a[i, q] is 0 for q < i: terms before a tile's first row are left out
LEFT = 3  # of out, only j <= i is wanted: columns beyond a tile's last row are left out


@njit
def whole(n, itemsize):
    """n rounded up to whole vectors."""
    lanes = REGISTER_BYTES // itemsize
    return (n + lanes - 1) // lanes * lanes


def _make_tile(vectors):
    """STEP rows times `vectors` vectors of columns, all sums in registers; rows beyond `last` repeat row `last`."""

    @intrinsic
    def tile(context, a, a_at, a_row, a_term, b, b_at, b_term, out, out_at, out_row, last, depth, fresh):
        n = types.int64
        signature = types.void(a, n, n, n, b, n, n, out, n, n, n, n, types.boolean)

        def codegen(context, builder, signature, args):
            v, integer = Lanes(context, builder, signature.args[0].dtype, REGISTER_BYTES), ir.IntType(64)
            (a_at, a_row, a_term), (b_at, b_term) = args[1:4], args[5:7]
            out_at, out_row, last, depth, fresh = args[8:13]
            a, b, out = (v.start(signature.args[i], args[i]) for i in (0, 4, 7))
            row = [builder.select(builder.icmp_signed("<", integer(r), last), integer(r), last) for r in range(STEP)]
            factors = [builder.gep(a, [builder.add(a_at, builder.mul(r, a_row))]) for r in row]
            results = [builder.gep(out, [builder.add(out_at, builder.mul(r, out_row))]) for r in row]
            panel = builder.gep(b, [b_at])
            cells = [(r, number) for r in range(STEP) for number in range(vectors)]
            places = [integer(number * v.count) for number in range(vectors)]
            new_sums = builder.icmp_unsigned("!=", fresh, fresh.type(0))
            first = {
                (r, number): builder.select(new_sums, v.zero(), v.load(results[r], places[number]))
                for r, number in cells
            }
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            q = builder.phi(integer)
            q.add_incoming(integer(0), before)
            sums = {cell: builder.phi(v.vector) for cell in cells}
            line, term = builder.gep(panel, [builder.mul(q, b_term)]), builder.mul(q, a_term)
            weights = [v.load(line, place) for place in places]
            new = {}
            for r in range(STEP):
                value = v.broadcast(factors[r], term)
                for number in range(vectors):
                    new[r, number] = v.multiply_add(value, weights[number], sums[r, number])
            following = builder.add(q, integer(1))
            q.add_incoming(following, loop)
            for cell in cells:
                sums[cell].add_incoming(first[cell], before)
                sums[cell].add_incoming(new[cell], loop)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
            builder.position_at_end(after)
            for r, number in cells:
                v.store(new[r, number], results[r], places[number])
            return context.get_dummy_value()

        return signature, codegen

    return tile


_tile_1, _tile_2 = _make_tile(1), _make_tile(2)


@njit
def product(a, a_at, a_row, a_term, b, b_at, b_term, out, out_at, out_row, rows, depth, columns, kind, fresh):
    """out (+)= a b for `rows` rows, `depth` terms > 0 and `columns` columns, which are rounded up to whole vectors.

    x_at: where the operand begins in the array x. x_row, x_term: from a row, and from a term, to the next. fresh: what out
    held is forgotten. Rows of out may not overlap; what lies behind columns and is read must be memory.
    """
    _product(
        a, np.int64(a_at), np.int64(a_row), np.int64(a_term), b, np.int64(b_at), np.int64(b_term), out, np.int64(out_at),
        np.int64(out_row), np.int64(rows), np.int64(depth), np.int64(columns), np.int64(kind), np.bool_(fresh),
    )  # fmt: skip


@njit
def _product(a, a_at, a_row, a_term, b, b_at, b_term, out, out_at, out_row, rows, depth, columns, kind, fresh):
    keep_apart()  # and one copy for all constants: numba would compile one for every set of them
    lanes = REGISTER_BYTES // a.itemsize
    for r in range(0, rows, STEP):
        end = min(r + STEP, rows)
        q, until = (r if kind == UPPER else 0), (min(end, depth) if kind == LOWER else depth)
        wide = min(end, columns) if kind == LEFT else columns
        a_start, b_start, out_start = a_at + r * a_row + q * a_term, b_at + q * b_term, out_at + r * out_row
        column = 0
        while column + lanes < wide:
            _tile_2(
                a, a_start, a_row, a_term, b, b_start + column, b_term, out, out_start + column, out_row,
                end - r - 1, until - q, fresh,
            )  # fmt: skip
            column += 2 * lanes
        if column < wide:
            _tile_1(
                a, a_start, a_row, a_term, b, b_start + column, b_term, out, out_start + column, out_row,
                end - r - 1, until - q, fresh,
            )  # fmt: skip


def _pick(v, a, b, lanes):
    """Numbers of a and b, which are counted on behind those of a, in this order."""
    word = ir.IntType(32)
    return v.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(word, v.count), [word(lane) for lane in lanes]))


@intrinsic
def _flip_block(typing_context, a, a_at, a_row, out, out_at, out_row):
    """A square block of as many rows as a vector has numbers: halves of it change places, then halves of those."""

    def codegen(context, builder, signature, args):
        v, integer = Lanes(context, builder, signature.args[0].dtype, REGISTER_BYTES), ir.IntType(64)
        a, out = v.start(signature.args[0], args[0], args[1]), v.start(signature.args[3], args[3], args[4])
        rows = [v.load(a, builder.mul(integer(r), args[2])) for r in range(v.count)]
        far = v.count // 2
        while far:
            kept = [j if not j & far else v.count + j - far for j in range(v.count)]
            moved = [j + far if not j & far else v.count + j for j in range(v.count)]
            for r in range(v.count):
                if not r & far:
                    pair = rows[r], rows[r + far]
                    rows[r], rows[r + far] = _pick(v, *pair, kept), _pick(v, *pair, moved)
            far //= 2
        for r, row in enumerate(rows):
            v.store(row, out, builder.mul(integer(r), args[5]))
        return context.get_dummy_value()

    n = types.int64
    return types.void(a, n, n, out, n, n), codegen


@njit
def transpose(a, a_at, a_row, rows, columns, out, out_row):
    """out[j, i] = a[i, j], out from its beginning on; both flat. Rows and columns are rounded up to whole vectors."""
    _transpose(a, np.int64(a_at), np.int64(a_row), np.int64(rows), np.int64(columns), out, np.int64(out_row))


@njit
def _transpose(a, a_at, a_row, rows, columns, out, out_row):
    keep_apart()
    lanes = REGISTER_BYTES // a.itemsize
    for i in range(0, rows, lanes):
        for j in range(0, columns, lanes):
            _flip_block(a, a_at + i * a_row + j, a_row, out, j * out_row + i, out_row)
