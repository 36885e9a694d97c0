# mypy: ignore-errors
"""Matrix products of a few rows: those of a model's layers at one step of one stream, or of several.

Weights are packed as in `aireprune.kernels.numba.gemm`, and their biases follow them. One or two rows are read through
once for each row, with all sums in registers; more rows are tiles of the matrix product.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import keep_apart, kernel
from aireprune.kernels.numba.cpu import REGISTER_BYTES
from aireprune.kernels.numba.gemm import PANEL, gemm, pack_panel, panels
from aireprune.kernels.numba.lanes import Lanes

FEW = 2  # rows that are not worth a tile
_IN_FLIGHT = 8  # sums that hide the latency of a multiplication


def _make_row(vectors):
    """An intrinsic: out = bias + a w for one row a (depth,) and a panel w (depth, `vectors` vectors)."""
    chains = _IN_FLIGHT // vectors

    @intrinsic
    def row(context, a, a_at, depth, w, w_at, bias_at, out, out_at):
        whole = types.int64

        def codegen(context, builder, signature, args):
            v, integer = Lanes(context, builder, signature.args[0].dtype, REGISTER_BYTES), ir.IntType(64)
            _, a_at, depth, _, w_at, bias_at, _, out_at = args
            a, w, out = (v.start(signature.args[i], args[i]) for i in (0, 3, 6))
            a, panel, out = builder.gep(a, [a_at]), builder.gep(w, [w_at]), builder.gep(out, [out_at])
            bias = builder.gep(w, [bias_at])
            columns = [integer(number * v.count) for number in range(vectors)]
            sums = [
                [v.variable(v.load(bias, at) if chain == 0 else v.zero()) for at in columns] for chain in range(chains)
            ]

            def add(q, chain):
                value, line = v.broadcast(a, q), builder.gep(panel, [builder.mul(q, integer(vectors * v.count))])
                for at, slot in zip(columns, sums[chain], strict=True):
                    builder.store(v.multiply_add(value, v.load(line, at), builder.load(slot)), slot)

            rounds = builder.sdiv(depth, integer(chains))
            done = builder.mul(rounds, integer(chains))
            with cgutils.for_range(builder, rounds) as loop:
                first = builder.mul(loop.index, integer(chains))
                for chain in range(chains):
                    add(builder.add(first, integer(chain)), chain)
            with cgutils.for_range(builder, builder.sub(depth, done)) as loop:
                add(builder.add(done, loop.index), 0)
            for number, at in enumerate(columns):
                total = builder.load(sums[0][number])
                for chain in range(1, chains):
                    total = v.add(total, builder.load(sums[chain][number]))
                v.store(total, out, at)
            return context.get_dummy_value()

        return types.void(a, whole, whole, w, whole, whole, out, whole), codegen

    return row


_row_1, _row_2 = _make_row(1), _make_row(2)
_row_3, _row_4 = (_make_row(3), _make_row(4)) if PANEL == 4 else (_row_2, _row_2)


@kernel()
def pack(w, packed):
    """w (n, k) into packed (n k,), n being whole vectors."""
    for number in range(panels(w.shape[0], w.itemsize)):
        pack_panel(w, number, packed)


@njit
def product(a, a_row, rows, weights, at, n, out):
    """out = bias + a w^T for `rows` rows of a (.., k) from a_row on, into the first rows of out (.., n).

    weights from `at` on: w (n, k) packed, then its bias (n,); n is whole vectors.
    """
    keep_apart()
    k = a.shape[1]
    if rows > FEW:
        bias = weights[at + n * k : at + n * k + n].reshape(1, n)
        gemm(a, a_row, rows, weights[at : at + n * k], n, bias, out, 0)
        return
    lanes = REGISTER_BYTES // a.itemsize
    for column in range(0, n, PANEL * lanes):
        vectors = min(PANEL, (n - column) // lanes)
        panel, bias_at = at + column * k, at + n * k + column
        for r in range(rows):
            a_at, out_at = (a_row + r) * k, r * out.shape[1] + column
            if vectors == 1:
                _row_1(a, a_at, k, weights, panel, bias_at, out, out_at)
            elif vectors == 2:
                _row_2(a, a_at, k, weights, panel, bias_at, out, out_at)
            elif vectors == 3:
                _row_3(a, a_at, k, weights, panel, bias_at, out, out_at)
            else:
                _row_4(a, a_at, k, weights, panel, bias_at, out, out_at)
