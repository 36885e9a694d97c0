# mypy: ignore-errors
"""Numba kernels of an RMS norm in training: one pass over memory each way."""

from __future__ import annotations

from numba import prange

from aireprune.kernels.numba import norm_rows as of_rows
from aireprune.kernels.numba.compile import kernel


@kernel(parallel=True)
def forward(x, weight, eps, workers, out):
    """x (rows, h) -> out: every row at a root mean square of 1, times the weight (h,)."""
    (rows, h), small = x.shape, x.dtype.type(eps)
    for worker in prange(workers):
        start, end = worker * rows // workers, (worker + 1) * rows // workers
        of_rows.rms(x, start * h, weight, small, out, end - start, h)


@kernel(parallel=True)
def backward(grad, x, weight, eps, dx, sums):
    """The gradients of x and, added up by every worker, of the weight: sums (workers, h), zeros in the beginning."""
    (rows, h), small, workers = x.shape, x.dtype.type(eps), sums.shape[0]
    for worker in prange(workers):
        start, end = worker * rows // workers, (worker + 1) * rows // workers
        of_rows.rms_backward(grad, start * h, x, weight, small, dx, sums[worker], end - start, h)
