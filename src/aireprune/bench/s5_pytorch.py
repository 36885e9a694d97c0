"""The layer of s5-pytorch, an implementation to compare ours with, if it is installed."""

from __future__ import annotations

import importlib.util
import warnings

from torch import nn

OTHER = "s5-pytorch"  # its name in results


def s5_pytorch_layer(h: int, n: int) -> nn.Module | None:
    """A bidirectional layer of h features; its n states without conjugate symmetry do the work of our n/2 pairs."""
    if importlib.util.find_spec("s5") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from s5 import S5

        layer: nn.Module = S5(h, state_width=n, bidir=True)
    return layer
