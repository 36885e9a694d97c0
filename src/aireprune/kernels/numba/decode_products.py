# mypy: ignore-errors
"""Products of matrices with one vector, read where the model keeps them: every weight passes once, in long runs.

A matrix (n, k) is known by the address of its first number, in single precision or in 8 bits with a factor per row.
`kind` is any array of the type in which all matrices of a model are stored.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic, overload

from aireprune.kernels.numba.compile import FAST, keep_apart


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


def _factor(scale, row, kind, like):
    """What the numbers of a row are to be multiplied by; like: any array in single precision."""


@overload(_factor)
def _factor_by_kind(scale, row, kind, like):
    if kind.dtype == types.float32:
        return lambda scale, row, kind, like: np.float32(1)
    return lambda scale, row, kind, like: _at(scale, row + 1, like)[row]


@njit(fastmath=FAST, error_model="numpy")
def product(address, scale, kind, n, k, first, last, column, x, out):
    """out[r - first] = sum over j of w[r, column + j] x[j] for rows r from `first` to `last` of w (n, k)."""
    keep_apart()
    w, columns, r = _at(address, n * k, kind), x.shape[0], first
    while r + 4 <= last:  # x is read once for four rows
        a = r * k + column
        w0, w1, w2, w3 = w[a:], w[a + k :], w[a + 2 * k :], w[a + 3 * k :]
        s0, s1, s2, s3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for j in range(columns):
            value = x[j]
            s0 += np.float32(w0[j]) * value
            s1 += np.float32(w1[j]) * value
            s2 += np.float32(w2[j]) * value
            s3 += np.float32(w3[j]) * value
        out[r - first] = s0 * _factor(scale, r, kind, out)
        out[r - first + 1] = s1 * _factor(scale, r + 1, kind, out)
        out[r - first + 2] = s2 * _factor(scale, r + 2, kind, out)
        out[r - first + 3] = s3 * _factor(scale, r + 3, kind, out)
        r += 4
    while r < last:
        row, total = w[r * k + column :], np.float32(0)
        for j in range(columns):
            total += np.float32(row[j]) * x[j]
        out[r - first] = total * _factor(scale, r, kind, out)
        r += 1


@njit(error_model="numpy")
def read_row(address, scale, kind, n, k, row, out):
    """Row `row` of a matrix (n, k) into out (k,)."""
    w, factor = _at(address, n * k, kind), _factor(scale, row, kind, out)
    for j in range(k):
        out[j] = np.float32(w[row * k + j]) * factor
