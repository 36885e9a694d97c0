"""One BLAS thread for many small matrices.

Splitting a 64 x 64 eigenproblem over threads costs more than it gives, and when other programs keep the cores busy
the threads wait for each other: 256 of them then took 12 s instead of 0.1 s. With one thread the last digits of a
result do not depend on the machine's number of cores either.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


def single_threaded(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function with one BLAS thread."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_blas_thread():
            return function(*args, **kwargs)

    return limited


def one_blas_thread() -> Any:
    """A context with one BLAS thread. Threads that each enter it need another one around them all, as the last digits of
    what one of them does would depend on when others leave it."""
    return _blas().limit(limits=1)


@cache
def _blas() -> Any:
    """The libraries that NumPy calls. Looking for them in the process takes milliseconds, more than a small layer does."""
    return ThreadpoolController().select(user_api="blas")
