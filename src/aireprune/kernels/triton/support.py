"""Whether Triton can serve CUDA tensors; asking for the first time registers its kernels with the operators."""

from __future__ import annotations

import functools
import importlib.util


@functools.cache
def have_triton() -> bool:
    """Triton comes with torch's CUDA wheels; without it CUDA tensors take the plain torch path."""
    if importlib.util.find_spec("triton") is None:
        return False
    import aireprune.kernels.triton.scan
    import aireprune.kernels.triton.selective  # noqa: F401  registers itself

    return True
