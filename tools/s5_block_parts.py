"""What the parts of a fused S5 block cost one thread, on chunks that are in cache, and what a call costs: best of many.

.venv/bin/python tools/s5_block_parts.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from numba import njit

from aireprune.bench.lra import LRA, make_model
from aireprune.kernels.numba import gemm as numba_gemm
from aireprune.kernels.numba import s5 as numba_s5
from aireprune.kernels.numba import s5_rows as numba_s5_rows
from aireprune.kernels.numba.lanes import aligned_rows

ROWS = numba_s5.CHUNK
gelu, gate, scan, gemm = numba_s5_rows.skip_and_gelu, numba_s5_rows.add_gated, numba_s5._scan, numba_gemm.gemm


def draw(*shape: int) -> np.ndarray:
    """Random numbers that begin at a cache line, as they do in the block."""
    found: np.ndarray = aligned_rows(1, math.prod(shape), np.dtype(np.float32)).reshape(shape)
    found[...] = 0.1 * np.random.default_rng(0).standard_normal(shape)
    return found


def best(run: Callable[[], object], times: int = 1) -> float:
    """Seconds of one of `times` repetitions inside run."""
    found = []
    for _ in range(30):
        began = time.perf_counter()
        run()
        found.append((time.perf_counter() - began) / times)
    return min(found)


@njit
def many_gelus(times, y, skip, u, g):  # type: ignore[no-untyped-def]
    for _ in range(times):
        y[:] = 0.1
        gelu(y, ROWS, skip, u, 0, g)


@njit
def many_fills(times, y):  # type: ignore[no-untyped-def]
    for _ in range(times):
        y[:] = 0.1


@njit
def many_gates(times, out, x, v):  # type: ignore[no-untyped-def]
    for _ in range(times):
        gate(out, 0, ROWS, x, v, 0)


@njit
def many_scans(times, bu, lr, li, start, x):  # type: ignore[no-untyped-def]
    for _ in range(times):
        scan(bu, 0, ROWS, lr, li, False, start, 0, x, 0, x.shape[1])


@njit
def many_products(times, a, packed, n, bias, out):  # type: ignore[no-untyped-def]
    for _ in range(times):
        gemm(a, 0, ROWS, packed, n, bias, out, 0)


def product(k: int, n: int) -> str:
    """GFLOP/s of our product and of torch's, both on one thread."""
    w, wide = draw(n, k), int(numba_gemm.padded(n, 4))
    packed, a = draw(wide * k), draw(ROWS, k)
    for number in range(int(numba_gemm.panels(n, 4))):
        numba_gemm.pack_panel(w, number, packed)
    out, bias, flops = draw(ROWS, wide), draw(1, wide), 2e-9 * ROWS * k * n
    ours = best(lambda: many_products(100, a, packed, n, bias, out), 100)
    left, right, into = torch.from_numpy(a), torch.from_numpy(w).T, torch.empty(ROWS, n)
    theirs = best(lambda: [torch.mm(left, right, out=into) for _ in range(100)], 100)
    return f"product {ROWS} x {k} x {n}: {flops / ours:.0f} GFLOP/s, torch {flops / theirs:.0f}"


def main() -> None:
    torch.set_num_threads(1)
    size = LRA["pathfinder"]
    h, numbers = size.h, ROWS * size.h
    y, u, g, v, skip = draw(ROWS, h), draw(ROWS, h), draw(ROWS, h), draw(ROWS, h), draw(h)
    fills = best(lambda: many_fills(100, y), 100)
    print(
        f"skip and GELU: {1e9 * (best(lambda: many_gelus(100, y, skip, u, g), 100) - fills) / numbers:.2f} ns per number"
    )
    print(f"gate and residual: {1e9 * best(lambda: many_gates(100, u, g, v), 100) / numbers:.2f} ns per number")
    for pairs in (size.pairs, size.kept):
        bu, x, start = draw(ROWS, int(numba_gemm.padded(2 * pairs, 4))), draw(ROWS, 4 * pairs), draw(1, 2 * pairs)
        pole = np.full(pairs, 0.5, np.float32)
        each = best(lambda b=bu, p=pole, s=start, o=x: many_scans(100, b, p, p, s, o), 100)
        print(f"scan of {pairs} pairs, one direction: {1e9 * each / ROWS:.1f} ns per step")
        for k, n in ((h, 2 * pairs), (4 * pairs, h), (h, h)):
            print(product(k, n))
    torch.set_num_threads(2)
    for name in ("listops", "pathfinder"):
        size = LRA[name]
        block, z = make_model(size, size.kept, 1).layers[0], torch.randn(1, 1, size.h)
        with torch.inference_mode():
            print(
                f"call of a block on one step, {name}, {size.kept} pairs: {1e3 * best(lambda b=block, z=z: b(z)):.2f} ms"
            )


if __name__ == "__main__":
    main()
