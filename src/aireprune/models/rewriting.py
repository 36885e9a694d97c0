"""What changed between two of our models, as edits of the file that the first one was built from."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

import numpy as np
from torch import nn

from aireprune.arrays import Edit
from aireprune.errors import AireError
from aireprune.models.arrays import to_numpy
from aireprune.models.s5_convert import torch_name


def changed_arrays(names: Iterable[str], full: nn.Module, changed: nn.Module) -> dict[str, Edit]:
    """The arrays of a file that differ between the two models, under the names and in the form the file has."""
    before, after = ({name: to_numpy(t) for name, t in m.state_dict().items()} for m in (full, changed))
    edits: dict[str, Edit] = {}
    names = list(names)
    translated = _translated(names, after) if getattr(full, "family", "") != "s5" else {}
    for name in names:
        own = translated.get(name) or torch_name(name)
        parts = [own] if own in after else [own + "_re", own + "_im"]
        if parts[0] in after and any(not np.array_equal(before[part], after[part]) for part in parts):
            new = after[parts[0]] if len(parts) == 1 else after[parts[0]] + 1j * after[parts[1]]
            edits[name] = partial(_in_the_form_of, new.T if name.endswith(".kernel") else new)
    return edits


def _translated(names: Collection[str], known: Collection[str]) -> dict[str, str]:
    """The module's name of every tensor of a file. transformers may call the stem of a model (backbone, model) otherwise."""
    if any(name in known for name in names):
        return {name: name for name in names}
    for stem in {name.partition(".")[0] for name in known}:
        renamed = {name: f"{stem}.{name.partition('.')[2]}" for name in names}
        found = {name: other if other in known else name for name, other in renamed.items()}
        if sum(other in known for other in found.values()) > len(names) / 2:
            return found
    raise AireError("The file's tensors have other names than those of the model that was built from it.")


def _in_the_form_of(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(old) and not np.iscomplexobj(new):
        new = new[..., 0] + 1j * new[..., 1]
    if new.ndim == old.ndim + 1:  # log_step as a column
        new = new[..., 0]
    return np.asarray(new.astype(old.dtype))
