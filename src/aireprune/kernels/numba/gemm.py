# mypy: ignore-errors
"""A matrix product that numba kernels can call from any thread: small tiles of the output held in vector registers.

BLAS would do, but numba's np.dot needs SciPy, packs the weights on every call, and its threads compete with numba's.
Here the weights are packed once, bias is free, and the product is written where the next step reads it, into a chunk
that is still in cache. `tools/s5_block_parts.py` compares its speed with that of torch.

    gemm:   out[i, j] = bias[j] + sum over q of a[i, q] * w[j, q]
    outer:  out[i, j] += sum over t of a[t, i] * b[t, j]

For `gemm`, w (n, k) is packed as panels of PANEL vectors of columns, each panel (k, columns), the last one as narrow as n
allows. For `outer`, which gives training the gradients of weights, nothing is packed. Rows of `out` are written in whole
vectors: its row length must be at least `padded(n)`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import keep_apart
from aireprune.kernels.numba.cpu import REGISTER_BYTES, REGISTERS
from aireprune.kernels.numba.lanes import Lanes

# rows of a tile by its vectors of columns: sums, weights and a factor fill the registers
ROWS = {4: 6, 3: 8, 2: 12, 1: 12} if REGISTERS == 32 else {2: 6, 1: 6}
PANEL = max(ROWS)  # vectors of columns in a full panel
DEPTH = 160  # most terms of the sum per pass: a panel of that depth stays in the first-level cache


def _tile(vectors: int):
    """An intrinsic for ROWS[vectors] rows times `vectors` vectors of columns, all sums in registers.

    Rows beyond `last` repeat row `last`, so that a shorter tile needs no code of its own: it computes and stores the
    same numbers twice. `start` is where the sums begin: a row of biases (stride 0) or the partial sums themselves.
    a_stride, a_step: from a row of the tile, and from a term of the sum, to the next; w_step: from a term's weights to
    the next.
    """
    rows = ROWS[vectors]

    @intrinsic
    def tile(
        context, a, a_at, a_stride, a_step, last, depth, w, w_at, w_step, start, start_at, start_stride,
        out, out_at, out_stride,
    ):  # fmt: skip
        n = types.int64
        signature = types.void(a, n, n, n, n, n, w, n, n, start, n, n, out, n, n)

        def codegen(context, builder, signature, args):
            v, integer = Lanes(context, builder, signature.args[0].dtype, REGISTER_BYTES), ir.IntType(64)
            a_at, a_stride, a_step, last, depth = args[1:6]
            (w_at, w_step), (start_at, start_stride), (out_at, out_stride) = args[7:9], args[10:12], args[13:15]
            a, w, start, out = (v.start(signature.args[i], args[i]) for i in (0, 6, 9, 12))
            row = [builder.select(builder.icmp_signed("<", integer(r), last), integer(r), last) for r in range(rows)]

            def pointers(base, at, stride):
                return [builder.gep(base, [builder.add(at, builder.mul(r, stride))]) for r in row]

            def columns(number):
                return integer(number * v.count)

            a_row, start_row = pointers(a, a_at, a_stride), pointers(start, start_at, start_stride)
            out_row, panel = pointers(out, out_at, out_stride), builder.gep(w, [w_at])
            cells = [(r, number) for r in range(rows) for number in range(vectors)]
            first = {(r, number): v.load(start_row[r], columns(number)) for r, number in cells}
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            q = builder.phi(integer)
            q.add_incoming(integer(0), before)
            sums = {cell: builder.phi(v.vector) for cell in cells}
            line, term = builder.gep(panel, [builder.mul(q, w_step)]), builder.mul(q, a_step)
            weights = [v.load(line, columns(number)) for number in range(vectors)]
            new = {}
            for r in range(rows):
                value = v.broadcast(a_row[r], term)
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
                v.store(new[r, number], out_row[r], columns(number))
            return context.get_dummy_value()

        return signature, codegen

    return tile


def _strip(vectors: int):
    """A panel of `vectors` vectors of columns times all rows of a, tile by tile."""
    tile, step = _tile(vectors), ROWS[vectors]

    def strip(a, a_at, a_stride, rows, depth, w, w_at, start, start_at, start_stride, out, out_at, out_stride):
        keep_apart()
        columns = vectors * (REGISTER_BYTES // a.itemsize)
        for r in range(0, rows, step):
            tile(
                a, a_at + r * a_stride, a_stride, 1, rows - 1 - r, depth, w, w_at, columns,
                start, start_at + r * start_stride, start_stride, out, out_at + r * out_stride, out_stride,
            )  # fmt: skip

    # Compiled code is found by this name once it is loaded from disk: two strips that share it, compiled in different
    # processes, would be taken for each other.
    strip.__qualname__ = f"strip{vectors}"
    return njit(strip)


def _outer_strip(vectors: int):
    """All columns of a with `vectors` vectors of columns of b, tile by tile: sums over `rows` rows of both."""
    tile, step = _tile(vectors), ROWS[vectors]

    def strip(a, a_at, m, b, b_at, rows, out, column):
        keep_apart()
        a_step, b_step, wide = a.shape[1], b.shape[1], out.shape[1]
        for r in range(0, m, step):
            at = r * wide + column
            tile(a, a_at + r, 1, a_step, m - 1 - r, rows, b, b_at + column, b_step, out, at, wide, out, at, wide)

    strip.__qualname__ = f"outer_strip{vectors}"  # as above
    return njit(strip)


_strip1, _strip2 = _strip(1), _strip(2)
_strip3, _strip4 = (_strip(3), _strip(4)) if PANEL == 4 else (_strip2, _strip2)
_outer1, _outer2 = _outer_strip(1), _outer_strip(2)
_outer3, _outer4 = (_outer_strip(3), _outer_strip(4)) if PANEL == 4 else (_outer2, _outer2)


@njit
def padded(n, itemsize):
    """n rounded up to whole vectors."""
    lanes = REGISTER_BYTES // itemsize
    return (n + lanes - 1) // lanes * lanes


@njit
def panels(n, itemsize):
    """How many panels n columns make."""
    columns = PANEL * (REGISTER_BYTES // itemsize)
    return (n + columns - 1) // columns


@njit
def pack_panel(w, number, packed):
    """Panel `number` of w (n, k) into packed (padded(n) * k,)."""
    keep_apart()
    n, k = w.shape
    column = number * PANEL * (REGISTER_BYTES // w.itemsize)
    columns = min(PANEL * (REGISTER_BYTES // w.itemsize), padded(n, w.itemsize) - column)
    panel = packed[column * k : (column + columns) * k].reshape(k, columns)
    for j_block in range(0, columns, 16):  # blocks: the lines of both matrices are still in cache when they recur
        for q_block in range(0, k, 16):
            for j in range(j_block, min(j_block + 16, columns)):
                for q in range(q_block, min(q_block + 16, k)):
                    panel[q, j] = w[column + j, q] if column + j < n else w.dtype.type(0)


@njit
def packed(w):
    """w (n, k) as `gemm` takes it."""
    found = np.empty(padded(w.shape[0], w.itemsize) * w.shape[1], w.dtype)
    for number in range(panels(w.shape[0], w.itemsize)):
        pack_panel(w, number, found)
    return found


@njit
def bias_row(values):
    """What is added to the n columns, (n,), as `gemm` takes it."""
    found = np.zeros((1, padded(values.shape[0], values.itemsize)), values.dtype)
    found[0, : values.shape[0]] = values
    return found


@njit
def gemm(a, a_row, rows, packed, n, bias, out, out_row):
    """out = bias + a w^T for `rows` rows of a (.., k) from a_row on, into out (.., >= padded(n)) from out_row on.

    w (n, k) packed, bias (1, padded(n)).
    """
    keep_apart()
    k, wide, lanes = a.shape[1], out.shape[1], REGISTER_BYTES // a.itemsize
    passes = (k + DEPTH - 1) // DEPTH
    for column in range(0, n, PANEL * lanes):
        vectors = min(PANEL, (n - column + lanes - 1) // lanes)
        if k == 0:
            for r in range(rows):
                for j in range(column, column + vectors * lanes):
                    out[out_row + r, j] = bias[0, j]
        out_at = out_row * wide + column
        for number in range(passes):
            q = number * k // passes
            a_at, w_at, depth = a_row * k + q, column * k + q * vectors * lanes, (number + 1) * k // passes - q
            start, start_at, start_stride = (bias, column, 0) if q == 0 else (out, out_at, wide)
            if vectors == 1:
                _strip1(a, a_at, k, rows, depth, packed, w_at, start, start_at, start_stride, out, out_at, wide)
            elif vectors == 2:
                _strip2(a, a_at, k, rows, depth, packed, w_at, start, start_at, start_stride, out, out_at, wide)
            elif vectors == 3:
                _strip3(a, a_at, k, rows, depth, packed, w_at, start, start_at, start_stride, out, out_at, wide)
            else:
                _strip4(a, a_at, k, rows, depth, packed, w_at, start, start_at, start_stride, out, out_at, wide)


@njit
def outer(a, a_row, m, b, b_row, n, rows, out):
    """out += a^T b over `rows` rows of a (.., >= m) from a_row on and of b (.., >= n) from b_row on; out (m, >= padded(n)).

    Whole vectors of b are read: fewer than a vector's numbers behind its last row too, which must be memory, whatever it
    holds. Columns of out beyond n take what comes of it.
    """
    keep_apart()
    lanes = REGISTER_BYTES // a.itemsize
    if rows == 0 or m == 0:
        return
    a_at, b_at = a_row * a.shape[1], b_row * b.shape[1]
    for column in range(0, n, PANEL * lanes):
        vectors = min(PANEL, (n - column + lanes - 1) // lanes)
        if vectors == 1:
            _outer1(a, a_at, m, b, b_at, rows, out, column)
        elif vectors == 2:
            _outer2(a, a_at, m, b, b_at, rows, out, column)
        elif vectors == 3:
            _outer3(a, a_at, m, b, b_at, rows, out, column)
        else:
            _outer4(a, a_at, m, b, b_at, rows, out, column)
