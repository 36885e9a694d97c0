"""One BLAS thread for many small matrices.

Splitting a 64 x 64 eigenproblem over threads costs more than it gives, and when other programs keep the cores busy
the threads wait for each other: 256 of them then took 12 s instead of 0.1 s. With one thread the last digits of a
result do not depend on the machine's number of cores either.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
R = TypeVar("R")


def single_threaded(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function with one BLAS thread."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
