"""How the kernels of decoding know a model: records of its sizes, and of where its numbers are.

Fields that end in _at say where something begins among the small weights, or in the memory of the sequence. A matrix is
an address, `NAME`, and that of the factors of its blocks, `NAME_scale`, which is 0 where it is stored in single precision.
"""

from __future__ import annotations

import numpy as np

BLOCK = 64  # numbers of a row that have a factor in common in 8 bits, and channels that are not divided between threads


def _record(matrices: tuple[str, ...], *fields: str) -> np.dtype:
    addresses = [field for name in matrices for field in (name, f"{name}_scale")]
    return np.dtype([(field, np.int64) for field in (*addresses, *fields)])


# norm_at: factors (features,), then epsilon; parts: shares of the work, one for a thread
MODEL = _record(("embedding", "head"), "features", "vocabulary", "norm_at", "parts")
MAMBA = _record(
    ("inner", "x", "outer"), "norm_at", "channels", "taps", "rank", "states", "window_at", "state_at",
    "inner_bias_at", "conv_at", "dt_at", "dt_bias_at", "poles_at", "skip_at", "outer_bias_at",
)  # fmt: skip
# values: of B (and of C) in all groups; norm_groups: into which the channels are normed
MAMBA2 = _record(
    ("inner", "outer"), "norm_at", "channels", "taps", "values", "heads", "head", "groups", "states", "norm_groups",
    "projected", "window_at", "state_at", "inner_bias_at", "conv_at", "b_at", "c_at", "head_at", "norm2_at", "outer_bias_at",
)  # fmt: skip
