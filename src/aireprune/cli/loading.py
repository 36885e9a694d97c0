"""How to load what was written: the last line of `aire prune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aireprune.families import Layer
    from aireprune.pruning.plan import Plan
    from aireprune.pruning.source import FileSource


def how_to_load(source: FileSource, target: Path, plan: Plan, mask: bool) -> str:
    """Code that loads the copy of `source` at `target`, with the one number that stock code needs changed."""
    from aireprune.families.mamba2 import is_projected
    from aireprune.files.urls import as_url
    from aireprune.pruning.companions import folder_call
    from aireprune.pruning.surgery import stored_sizes
    from aireprune.pruning.targets import find_target

    if (url := as_url(target)) is not None:
        return f'Load it: aireprune.load("{url}")'
    if plan.target is not None and (load := find_target(plan.target).load) is not None:
        return f"Load it: {load.format(out=target)}"
    if source.kind == "huggingface":
        return f"Load it: {folder_call(source, str(target), plan, mask)}"
    sizes = stored_sizes(source.layers, plan, mask)
    projected = plan.reduce == "projected" or any(map(is_projected, source.layers))
    if source.writes_own(target) or projected:  # stock code knows no projections
        return f'Load it: aireprune.load("{target}")'
    if len(set(sizes)) > 1:
        return f'Load it: aireprune.load("{target}"), or its own class with layers of {_listed(sizes)} states'
    return f"Load it: {_stock(source, target)}{'' if mask else _changed(source.layers[0], sizes[0])}"


def _stock(source: FileSource, target: Path) -> str:
    """A single file, as its own code loads it."""
    if source.kind == "flax":
        return f'flax.serialization.msgpack_restore(open("{target}", "rb").read())'
    if source.kind == "orbax":
        return f'orbax.checkpoint.PyTreeCheckpointer().restore("{target}")'
    if source.kind == "npz":
        return f'numpy.load("{target}")'
    if source.kind == "safetensors":
        return f'model.load_state_dict(safetensors.torch.load_file("{target}"))'
    from aireprune.files.single import SingleCheckpoint

    checkpoint = source.checkpoint
    keys = checkpoint.within if isinstance(checkpoint, SingleCheckpoint) else ()
    return f'model.load_state_dict(torch.load("{target}"){"".join(f"[{key!r}]" for key in keys)})'


def _changed(layer: Layer[Any], size: int) -> str:
    """The number that changed, as the class that such layers come from calls it."""
    if layer.family in ("mamba", "mamba2"):
        return f", made with d_state={size}"
    if layer.family == "s4d":  # a stored mode is a pair of states
        return f", made with d_state={2 * size}"
    if layer.family == "s5" and layer.options.halves:
        return f", made with ssm_size={2 * size} (one block)"
    return f", made with {size} states"


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes[:8])) + (", …" if len(sizes) > 8 else "")
