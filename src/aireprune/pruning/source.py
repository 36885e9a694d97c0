"""A model in memory or a checkpoint on disk, opened: its named arrays, its layers, its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aireprune.errors import AireError
from aireprune.families import FAMILIES, find_layers
from aireprune.families.base import Layer, NamedArrays
from aireprune.families.s4 import diagonalize
from aireprune.files import open_checkpoint
from aireprune.files.base import Checkpoint, Edit
from aireprune.method.states import LayerStates
from aireprune.pruning.plan import THREADS, fingerprint

if TYPE_CHECKING:
    from torch import nn

ASSUMED = {  # what tensors do not show, for the notice when there is no configuration either
    "mamba": "no norms of B and C without weights (FalconMamba has them)",
    "mamba2": "one group of states",
}
ConfigLike = Mapping[str, Any] | str | Path | None


@dataclass(frozen=True)
class Source:
    """Where layers were found. Exactly one of `checkpoint` and `module` is there."""

    name: str
    arrays: NamedArrays
    config: Mapping[str, Any]
    layers: list[Layer]
    notices: list[str]
    checkpoint: Checkpoint | None = None
    module: nn.Module | None = None

    @property
    def kind(self) -> str:
        return self.checkpoint.kind if self.checkpoint is not None else "module"

    def states(self) -> list[LayerStates]:
        """What is scored, layer by layer."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda layer: FAMILIES[layer.family].states(layer, self.arrays), self.layers))

    def fingerprint(self) -> str:
        return fingerprint(self.layers, self.arrays)

    def edits(self, todo: dict[str, Edit]) -> dict[str, Edit]:
        """Edits of `arrays` as edits of what is behind them (S4 layers were diagonalised on opening)."""
        behind = getattr(self.arrays, "edits", None)
        return dict(behind(todo)) if behind is not None else todo


def open_source(
    what: nn.Module | Checkpoint | str | Path,
    config: ConfigLike = None,
    layout: str = "adaptive",
    granularity: str = "mode",
) -> Source:
    """Open a path, an opened checkpoint or a module, and find the state space layers in it.

    layout and granularity decide what a removable state is (see `aireprune.families.s4d`).
    """
    choices = {"layout": layout, "granularity": granularity}
    if isinstance(what, str | Path):
        what = open_checkpoint(what, config)
    if not isinstance(what, Checkpoint):
        if not hasattr(what, "state_dict"):
            raise AireError(f"Expected a model or the path of a checkpoint, not a {type(what).__name__}.")
        if isinstance(config, Mapping):
            choices = {**config, **choices}
        elif config is not None:
            raise AireError("A model in memory takes its configuration as a mapping, not from a file.")
        return _open_module(what, choices)
    where = str(what.path)
    found = {**what.config, **choices}
    view = diagonalize(what, found)
    opened: NamedArrays = what if view is None else view
    notices = [] if view is None else list(view.notices)
    layers = find_layers(opened, found, where)
    if not what.config and any(layer.family in ASSUMED for layer in layers):
        assumed = sorted({ASSUMED[layer.family] for layer in layers if layer.family in ASSUMED})
        notices.append(
            f"no configuration came with {where}; assuming {' and '.join(assumed)} (--config FILE says otherwise)."
        )
    return Source(where, opened, found, layers, notices, checkpoint=what)


def _open_module(module: nn.Module, choices: Mapping[str, Any]) -> Source:
    from aireprune.models.editing import ModuleArrays, foreign_config

    found = {**foreign_config(module), **choices}
    arrays, name = ModuleArrays(module), type(module).__name__
    return Source(name, arrays, found, find_layers(arrays, found, name), [], module=module)
