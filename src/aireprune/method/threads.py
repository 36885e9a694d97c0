"""One BLAS thread for many small matrices.

Splitting a 64 x 64 eigenproblem over threads costs more than it gives, and when other programs keep the cores busy
the threads wait for each other: 256 of them then took 12 s instead of 0.1 s. With one thread the last digits of a
result do not depend on the machine's number of cores either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread for a while. Around threads that each do this themselves, for as long as any of them runs."""
    with _blas().limit(limits=1):
        yield


@cache
def _blas() -> Any:
    """The libraries that NumPy calls. Looking for them in the process takes milliseconds, more than a small layer does."""
    return ThreadpoolController().select(user_api="blas")
