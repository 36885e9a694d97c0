# mypy: ignore-errors
"""A matrix product that numba kernels can call from any thread: small tiles of the output held in vector registers.

BLAS would do, but numba's np.dot needs SciPy, packs the weights anew on every call, and its own threads fight with
numba's. Here the weights are packed once, bias is free, and the product is written where the next step reads it: into
a chunk that is still in cache. On an AVX-512 machine it runs at 80-100 % of MKL's speed.

    out[i, j] = bias[j] + sum over q of a[i, q] * w[j, q]

w (n, k) is packed as panels of PANEL vectors of columns, each panel (k, columns), the last one as narrow as n allows.
Rows of `out` are written in whole vectors: its row length must be at least `padded(n)`.
"""

from __future__ import annotations

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_FEATURES = llvm.get_host_cpu_features()
if _FEATURES.get("avx512f"):  # 32 registers of 64 bytes
    VECTOR, ROWS = 64, {4: 6, 3: 8, 2: 12, 1: 12}
elif _FEATURES.get("avx"):  # 16 registers of 32 bytes
    VECTOR, ROWS = 32, {2: 6, 1: 6}
else:  # NEON: 32 registers of 16 bytes
    VECTOR, ROWS = 16, {4: 6, 3: 8, 2: 12, 1: 12}
PANEL = max(ROWS)  # vectors of columns in a full panel
DEPTH = 160  # most terms of the sum per pass: a panel of that depth stays in the first-level cache


@intrinsic
def keep_apart(context):
    """At the top of a function: it is not inlined. One copy of it is compiled instead of one per call."""

    def codegen(context, builder, signature, args):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


def _tile(vectors: int):
    """An intrinsic for ROWS[vectors] rows times `vectors` vectors of columns, all sums in registers.

    Rows beyond `last` repeat row `last`, so that a shorter tile needs no code of its own: it computes and stores the
    same numbers twice. `start` is where the sums begin: a row of biases (stride 0) or the partial sums themselves.
    """
    rows = ROWS[vectors]

    @intrinsic
    def tile(context, a, a_at, a_stride, last, depth, w, w_at, start, start_at, start_stride, out, out_at, out_stride):
        whole = types.int64
        signature = types.void(
            a, whole, whole, whole, whole, w, whole, start, whole, whole, out, whole, whole
        )  # fmt: skip

        def codegen(context, builder, signature, args):
            a_at, a_stride, last, depth = args[1:5]
            w_at, (start_at, start_stride), (out_at, out_stride) = args[6], args[8:10], args[11:13]
            a, w, start, out = (
                context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 5, 7, 10)
            )
            integer, scalar = ir.IntType(64), context.get_data_type(signature.args[0].dtype)
            lanes = VECTOR // (signature.args[0].dtype.bitwidth // 8)
            vector = ir.VectorType(scalar, lanes)
            name = f"llvm.fma.v{lanes}f{signature.args[0].dtype.bitwidth}"
            fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
            row = [
                builder.select(builder.icmp_signed("<", integer(r), last), integer(r), last) for r in range(rows)
            ]  # fmt: skip

            def pointers(base, at, stride):
                return [builder.gep(base, [builder.add(at, builder.mul(r, stride))]) for r in row]

            def vector_at(pointer, v):
                return builder.bitcast(builder.gep(pointer, [integer(v * lanes)]), vector.as_pointer())

            a_row, start_row = pointers(a, a_at, a_stride), pointers(start, start_at, start_stride)
            out_row, panel = pointers(out, out_at, out_stride), builder.gep(w, [w_at])
            align = signature.args[0].dtype.bitwidth // 8
            cells = [(r, v) for r in range(rows) for v in range(vectors)]
            first = {(r, v): builder.load(vector_at(start_row[r], v), align=align) for r, v in cells}
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            q = builder.phi(integer)
            q.add_incoming(integer(0), before)
            sums = {cell: builder.phi(vector) for cell in cells}
            column = builder.gep(panel, [builder.mul(q, integer(vectors * lanes))])
            weights = [builder.load(vector_at(column, v), align=align) for v in range(vectors)]
            new = {}
            for r in range(rows):
                value = _broadcast(builder, builder.load(builder.gep(a_row[r], [q])), vector, lanes)
                for v in range(vectors):
                    new[r, v] = builder.call(fma, [value, weights[v], sums[r, v]])
            following = builder.add(q, integer(1))
            q.add_incoming(following, loop)
            for cell in cells:
                sums[cell].add_incoming(first[cell], before)
                sums[cell].add_incoming(new[cell], loop)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
            builder.position_at_end(after)
            for r, v in cells:
                builder.store(new[r, v], vector_at(out_row[r], v), align=align)
            return context.get_dummy_value()

        return signature, codegen

    return tile


def _broadcast(builder, value, vector, lanes):
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _strip(vectors: int):
    """A panel of `vectors` vectors of columns times all rows of a, tile by tile."""
    tile, step = _tile(vectors), ROWS[vectors]

    @njit
    def strip(a, a_at, a_stride, rows, depth, w, w_at, start, start_at, start_stride, out, out_at, out_stride):
        keep_apart()
        for r in range(0, rows, step):
            tile(
                a, a_at + r * a_stride, a_stride, rows - 1 - r, depth, w, w_at,
                start, start_at + r * start_stride, start_stride, out, out_at + r * out_stride, out_stride,
            )  # fmt: skip

    return strip


_strip1, _strip2 = _strip(1), _strip(2)
_strip3, _strip4 = (_strip(3), _strip(4)) if PANEL == 4 else (_strip2, _strip2)


@njit
def padded(n, itemsize):
    """n rounded up to whole vectors."""
    lanes = VECTOR // itemsize
    return (n + lanes - 1) // lanes * lanes


@njit
def panels(n, itemsize):
    columns = PANEL * (VECTOR // itemsize)
    return (n + columns - 1) // columns


@njit
def pack_panel(w, number, packed):
    """Panel `number` of w (n, k) into packed (padded(n) * k,)."""
    keep_apart()
    n, k = w.shape
    column = number * PANEL * (VECTOR // w.itemsize)
    columns = min(PANEL * (VECTOR // w.itemsize), padded(n, w.itemsize) - column)
    panel = packed[column * k : (column + columns) * k].reshape(k, columns)
    for j_block in range(
        0, columns, 16
    ):  # blocks, so that the lines of both matrices are still in cache when they recur
        for q_block in range(0, k, 16):
            for j in range(j_block, min(j_block + 16, columns)):
                for q in range(q_block, min(q_block + 16, k)):
                    panel[q, j] = w[column + j, q] if column + j < n else w.dtype.type(0)


@njit
def gemm(a, a_row, rows, packed, n, bias, out, out_row):
    """out = bias + a w^T for `rows` rows of a (.., k) from a_row on, into out (.., >= padded(n)) from out_row on.

    w (n, k) packed, bias (1, padded(n)).
    """
    keep_apart()
    k, wide, lanes = a.shape[1], out.shape[1], VECTOR // a.itemsize
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
