"""What changed between two of our models, as edits of the file that the first one was built from."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

import numpy as np
from torch import nn

from aireprune.arrays import Added, Edit
from aireprune.errors import AireError
from aireprune.models.arrays import to_numpy
from aireprune.models.flax_layout import torch_name
from aireprune.models.s4d_names import network_prefix, own_name


def changed_arrays(names: Iterable[str], full: nn.Module, changed: nn.Module) -> dict[str, Edit]:
    """The arrays of a file that differ between the two models, under the names and in the form the file has.

    Those of a projection, which the file does not have, stand beside the layer's in_proj.weight.
    """
    before, after = ({name: to_numpy(t) for name, t in m.state_dict().items()} for m in (full, changed))
    edits: dict[str, Edit] = {}
    resized = {name for name in before.keys() & after.keys() if after[name].shape != before[name].shape}
    own_names = _own_names(list(names), after, getattr(full, "family", ""))
    for name, own in own_names.items():
        parts = [own] if own in after else [own + "_re", own + "_im"]
        if parts[0] in before and any(not np.array_equal(before[part], after[part]) for part in parts):
            new = after[parts[0]] if len(parts) == 1 else after[parts[0]] + 1j * after[parts[1]]
            edits[name] = partial(_in_the_form_of, new.T if name.endswith(".kernel") else new)
            resized -= set(parts)
    if resized:
        raise AireError(f"The file has no tensor for {min(resized)} of the model, which has a new size.")
    stored = {own: name for name, own in own_names.items()}
    for own in sorted(after.keys() - before.keys()):
        layer, _, leaf = own.rpartition(".")
        beside = stored[f"{layer}.in_proj.weight"]
        edits[beside.removesuffix("in_proj.weight") + leaf] = Added(after[own], beside)
    return edits


def _own_names(names: list[str], known: Collection[str], family: str) -> dict[str, str]:
    """The names of a file -> those of the model. transformers may call the stem of a model (backbone, model) otherwise."""
    if family in ("s5", "lru"):
        return {name: torch_name(name) for name in names}
    if family == "s4d":
        prefix = network_prefix(names)
        return {name: own_name(name, prefix) for name in names}
    if sum(name in known for name in names) > len(names) / 2:
        return {name: name for name in names}
    for stem in sorted({name.partition(".")[0] for name in known}):
        renamed = {name: f"{stem}.{name.partition('.')[2]}" for name in names}
        found = {name: other if other in known else name for name, other in renamed.items()}
        if sum(other in known for other in found.values()) > len(names) / 2:
            return found
    raise AireError("The file's tensors have other names than those of the model that was built from it.")


def _in_the_form_of(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(old) and not np.iscomplexobj(new):
        new = new[..., 0] + 1j * new[..., 1]
    if new.ndim == old.ndim + 1:  # log_step as a column, a dense layer as a convolution of width 1
        new = new[..., 0]
    if new.ndim == old.ndim - 1:  # D of one readout
        new = new[None]
    return np.asarray(new.astype(old.dtype))
