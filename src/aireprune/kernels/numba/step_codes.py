"""How the kernels of the recurrent mode know a model: what is numbered, and the records that describe it.

Fields that end in _at say where something begins among the weights, or in a stream's memory. Widths are whole vectors.
"""

from __future__ import annotations

import numpy as np

ROWS = 48  # rows (steps of streams) that pass through all layers at a time; a multiple of every tile's rows

MODES = ("pool", "last", "tokens")  # what is answered: of the mean so far, of the last step, of every step
POOL, LAST, TOKENS = range(len(MODES))

NORMS = ("none", "batch", "layer", "rms")  # of a batch norm in evaluation mode, a factor and a shift are left
NO_NORM, BATCH, LAYER, RMS = range(len(NORMS))

ACTIVATIONS = ("gelu", "half_glu1", "half_glu2", "full_glu")
GELU, HALF_GLU1, HALF_GLU2, FULL_GLU = range(len(ACTIVATIONS))


def _record(*fields: str) -> np.dtype:
    return np.dtype([(field, np.int64) for field in fields])


def _layer(*fields: str) -> np.dtype:
    """before: whether the norm stands before the layer or after the residual connection."""
    return _record("norm_at", "norm", "before", *fields)


# answers_width 0: there is no head, the features themselves are answered
MODEL = _record(
    "features", "width", "inputs", "answers", "answers_width", "mode", "norm", "encoder_at", "norm_at", "head_at"
)
DIAGONAL = _layer("state_at", "modes", "gates", "activation", "poles_at", "b_at", "c_at", "skip_at", "gate_at")
S4D = _layer("state_at", "groups", "rows", "modes_at", "places_at", "skip_at", "mixing_at")
MAMBA = _layer(
    "residual", "window_at", "state_at", "channels", "taps", "rank", "states", "gates_width",
    "in_at", "conv_at", "x_at", "gates_at", "dt_at", "dt_bias_at", "poles_at", "skip_at", "out_at",
)  # fmt: skip
MAMBA2 = _layer(
    "residual", "window_at", "state_at", "channels", "width", "taps", "heads", "heads_width", "head", "head_width",
    "groups", "values_width", "states", "states_width", "projected",
    "in_at", "conv_at", "b_at", "c_at", "head_at", "norm2_at", "out_at",
)  # fmt: skip
