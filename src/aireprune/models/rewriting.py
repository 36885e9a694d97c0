"""What changed between two of our models, as edits of the file that the first one was built from."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from torch import nn

from aireprune.arrays import Edit
from aireprune.models.arrays import to_numpy
from aireprune.models.flax_layout import torch_name


def changed_arrays(names: Iterable[str], full: nn.Module, changed: nn.Module) -> dict[str, Edit]:
    """The arrays of a file that differ between the two models, under the names and in the form the file has."""
    before, after = ({name: to_numpy(t) for name, t in m.state_dict().items()} for m in (full, changed))
    edits: dict[str, Edit] = {}
    for name in names:
        own = torch_name(name) if getattr(full, "family", "") in ("s5", "lru") else name
        parts = [own + "_re", own + "_im"] if own.endswith(".Lambda") else [own]
        if parts[0] in after and any(not np.array_equal(before[part], after[part]) for part in parts):
            new = after[parts[0]] if len(parts) == 1 else after[parts[0]] + 1j * after[parts[1]]
            edits[name] = partial(_in_the_form_of, new.T if name.endswith(".kernel") else new)
    return edits


def _in_the_form_of(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(old) and not np.iscomplexobj(new):
        new = new[..., 0] + 1j * new[..., 1]
    if new.ndim == old.ndim + 1:  # log_step as a column
        new = new[..., 0]
    return np.asarray(new.astype(old.dtype))
