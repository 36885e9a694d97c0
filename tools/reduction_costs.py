"""What scoring and balancing cost: seconds on random layers, best of three.

.venv/bin/python tools/reduction_costs.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from aireprune.method.gramians import state_energies
from aireprune.method.reductions import balanced, hankel_scores
from aireprune.method.system import ModalSystem


def layer(batch: tuple[int, ...], modes: int, inputs: int, directions: int) -> ModalSystem:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal((*batch, *shape)) + 1j * rng.standard_normal((*batch, *shape))

    radius, angle = -rng.uniform(1e-3, 0.1, (*batch, modes)), rng.uniform(0, 3, (*batch, modes))
    return ModalSystem(radius, angle, normal(modes, inputs), normal(directions, inputs, modes))


def seconds(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    s5, s4d = layer((), 256, 128, 2), layer((3125,), 32, 1, 1)
    print(f"balance an S5 layer of 512 states (256 pairs) to 64 pairs: {seconds(lambda: balanced(s5, 64)):.2f} s")
    print(f"energies of 100,000 S4D modes: {seconds(lambda: state_energies(s4d)):.2f} s")
    print(f"Hankel scores of 100,000 S4D modes: {seconds(lambda: hankel_scores(s4d)):.2f} s")


if __name__ == "__main__":
    main()
