# mypy: ignore-errors
"""Products of matrices with one vector, read where the model keeps them: every weight passes once, in long runs.

A matrix (n, k) is known by the address of its first number, in single precision or in 8 bits with a factor for every
BLOCK numbers of a row, (n, blocks). `kind` is any array of the type in which all matrices of a model are stored.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.constants import CACHE_LINE
from aireprune.kernels.numba.cpu import REGISTER_BYTES
from aireprune.kernels.numba.decode_codes import BLOCK
from aireprune.kernels.numba.lanes import Lanes

ROWS = 4  # that a vector is read for once
AHEAD = {True: 2, False: 1}  # so many times ROWS rows later are asked for, in 8 bits and in single precision


@intrinsic
def _pointer(context, address, kind):
    """An address as a pointer to numbers of the type of the array `kind`."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind.dtype)(types.int64, kind), codegen


@njit(inline="always")
def _at(address, size, kind):
    """The `size` numbers from an address on, as an array."""
    return carray(_pointer(address, kind), (size,))


def _make_blocks(eight_bits):
    """An intrinsic: out[out_at + r] = the first `count` blocks of row r times x, for ROWS rows of w, the first at `at`.

    Rows of w are k numbers apart, and those in 8 bits have factors, `stride` apart. Sums of a row are vectors, whose lanes
    add up at the end. Rows that come later are asked for in time: what processors foresee by themselves is a third as fast.
    """

    @intrinsic
    def blocks(context, w, at, k, scales, scale_at, stride, x, count, out, out_at):
        whole = types.int64

        def codegen(context, builder, signature, args):
            v, integer = Lanes(context, builder, types.float32, REGISTER_BYTES), ir.IntType(64)
            w, scales, x, out = (v.start(signature.args[i], args[i]) for i in (0, 3, 6, 8))
            at, k, scale_at, stride, count, out_at = (args[i] for i in (1, 2, 4, 5, 7, 9))
            bytes_, words = ir.VectorType(ir.IntType(8), v.count), ir.VectorType(ir.IntType(32), v.count)
            row = [builder.gep(w, [builder.add(at, builder.mul(integer(r), k))]) for r in range(ROWS)]
            factor = [
                builder.gep(scales, [builder.add(scale_at, builder.mul(integer(r), stride))]) for r in range(ROWS)
            ]
            sums = [v.variable(v.zero()) for _ in range(ROWS)]
            ahead = builder.mul(integer(AHEAD[eight_bits] * ROWS), k)
            line = CACHE_LINE if eight_bits else CACHE_LINE // v.bytes

            def numbers(start, index):
                if not eight_bits:
                    return v.load(start, index)
                stored = builder.load(builder.bitcast(builder.gep(start, [index]), bytes_.as_pointer()))
                stored.align = 1
                return builder.sitofp(builder.sext(stored, words), v.vector)

            with cgutils.for_range(builder, count) as loop:
                first = builder.mul(loop.index, integer(BLOCK))
                places = [builder.add(first, integer(i)) for i in range(0, BLOCK, v.count)]
                values = [v.load(x, place) for place in places]
                for r in range(ROWS):
                    for i in range(0, BLOCK, line):
                        v.prefetch(row[r], builder.add(ahead, builder.add(first, integer(i))))
                    total = v.mul(numbers(row[r], places[0]), values[0])
                    for place, value in zip(places[1:], values[1:], strict=True):
                        total = v.multiply_add(numbers(row[r], place), value, total)
                    before = builder.load(sums[r])
                    if eight_bits:
                        total = v.multiply_add(v.broadcast(factor[r], loop.index), total, before)
                    else:
                        total = v.add(total, before)
                    builder.store(total, sums[r])
            for r in range(ROWS):
                builder.store(v.total(builder.load(sums[r])), builder.gep(out, [builder.add(out_at, integer(r))]))
            return context.get_dummy_value()

        return types.void(w, whole, whole, scales, whole, whole, x, whole, out, whole), codegen

    return blocks


_blocks_of_8_bits, _blocks_of_single = _make_blocks(True), _make_blocks(False)


@njit(fastmath=FAST, error_model="numpy")
def _single(address, n, k, first, last, column, x, out):
    """`product` of a matrix in single precision: whole blocks of ROWS rows at a time, the rest number by number."""
    keep_apart()
    w, columns, r = _at(address, n * k, x), x.shape[0], first
    whole = columns // BLOCK
    while r + ROWS <= last:
        _blocks_of_single(w, r * k + column, k, x, 0, 0, x, whole, out, r - first)
        if whole * BLOCK < columns:
            for other in range(r, r + ROWS):
                out[other - first] += _dot(w, other * k + column, x, whole * BLOCK)
        r += ROWS
    while r < last:
        out[r - first] = _dot(w, r * k + column, x, 0)
        r += 1


@njit(fastmath=FAST, error_model="numpy")
def _dot(w, at, x, begin):
    """Numbers of w from `at` on times x, from number `begin` on."""
    total = np.float32(0)
    for j in range(begin, x.shape[0]):
        total += w[at + j] * x[j]
    return total


@njit(fastmath=FAST, error_model="numpy")
def _eight_bits(address, scale, kind, n, k, first, last, column, x, out):
    """The same in 8 bits; blocks begin at multiples of BLOCK, wherever the columns do."""
    keep_apart()
    stride = (k + BLOCK - 1) // BLOCK
    w, scales = _at(address, n * k, kind), _at(scale, n * stride, x)
    columns = x.shape[0]
    begin = min(-column % BLOCK, columns)
    whole = (columns - begin) // BLOCK
    end, block, inner = begin + whole * BLOCK, (column + begin) // BLOCK, x[begin:]
    r, ragged = first, whole * BLOCK < columns
    while r + ROWS <= last:
        at = r * k + column + begin
        _blocks_of_8_bits(w, at, k, scales, r * stride + block, stride, inner, whole, out, r - first)
        if ragged:
            for other in range(r, r + ROWS):
                left = _some(w, other * k, scales, other * stride, column, x, 0, begin)
                out[other - first] += left + _some(w, other * k, scales, other * stride, column, x, end, columns)
        r += ROWS
    while r < last:
        out[r - first] = _some(w, r * k, scales, r * stride, column, x, 0, columns)
        r += 1


@njit(fastmath=FAST, error_model="numpy")
def _some(w, at, scales, scale_at, column, x, begin, end):
    """A row that begins at `at`, from `column` on, times numbers `begin` to `end` of x."""
    total = np.float32(0)
    for j in range(begin, end):
        total += np.float32(w[at + column + j]) * scales[scale_at + (column + j) // BLOCK] * x[j]
    return total


def product(address, scale, kind, n, k, first, last, column, x, out):
    """out[r - first] = sum over j of w[r, column + j] x[j] for rows r from `first` to `last` of w (n, k)."""


@overload(product)
def _product(address, scale, kind, n, k, first, last, column, x, out):
    if kind.dtype == types.float32:
        return lambda address, scale, kind, n, k, first, last, column, x, out: _single(
            address, n, k, first, last, column, x, out
        )
    return lambda address, scale, kind, n, k, first, last, column, x, out: _eight_bits(
        address, scale, kind, n, k, first, last, column, x, out
    )


def read_row(address, scale, kind, n, k, row, out):
    """Row `row` of a matrix (n, k) into out (k,)."""


@overload(read_row)
def _read_row(address, scale, kind, n, k, row, out):
    if kind.dtype == types.float32:

        def read(address, scale, kind, n, k, row, out):
            w = _at(address, n * k, kind)
            for j in range(k):
                out[j] = w[row * k + j]

    else:

        def read(address, scale, kind, n, k, row, out):
            stride = (k + BLOCK - 1) // BLOCK
            w, scales = _at(address, n * k, kind), _at(scale, n * stride, out)
            for j in range(k):
                out[j] = np.float32(w[row * k + j]) * scales[row * stride + j // BLOCK]

    return read
