"""Pruning with calibration: measure the full model, reduce it, fit the reduced layers, and write what came out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import nn

from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.damage import measured_scores
from aireprune.calibration.inputs import COUNT, Inputs, InputSource, read_inputs
from aireprune.calibration.readout import calibrate
from aireprune.errors import AireError
from aireprune.files.base import Checkpoint, Edit
from aireprune.files.sizes import resized_config
from aireprune.method.methods import method as find_method
from aireprune.models.arrays import is_own, to_numpy
from aireprune.models.build import build_model
from aireprune.models.s5_convert import torch_name
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import Source


def measure(model: nn.Module, inputs: Inputs, method: str, reduce: str) -> dict[str, Any]:
    """What the method and the reduction want to know about the full model, as arguments of `aireprune.prune`."""
    found: dict[str, Any] = {}
    if reduce != "truncate":
        found["covariances"] = measured_covariances(model, inputs)
    if find_method(method).measured:
        found["measured"] = measured_scores(model, inputs, find_method(method).criterion)
    return found


def prune_calibrated(
    model: nn.Module,
    inputs: InputSource,
    count: int = COUNT,
    plan: Plan | None = None,
    known: dict[str, Any] | None = None,
    **options: Any,
) -> nn.Module:
    """A reduced and calibrated model. known: what `measure` found, if it was asked before.

    The plan's certificate is about the reduction alone; fitted readouts are not what it speaks of, so it is left out.
    """
    from aireprune.api import prune

    given = read_inputs(inputs, count)
    if known is None:
        method = plan.method if plan else options.get("method", "aire")
        known = measure(model, given, method if plan is None else "aire", _reduce_of(plan, options))
    pruned = prune(model, plan, **options, **known)
    out = calibrate(model, pruned, given)
    applied: Any = pruned.plan
    out.plan = replace(applied, certificate=None, calibrated=len(given))
    return out


def prune_file_calibrated(
    opened: Source, target: Path, inputs: InputSource, count: int, plan: Plan | None, overwrite: bool, options: Any
) -> Plan:
    """The same from a checkpoint to a checkpoint of the same kind; without a suffix, to a folder in our own format."""
    from aireprune.api import save

    checkpoint = opened.checkpoint
    assert checkpoint is not None
    model = build_model(opened)
    if not is_own(model):
        raise AireError(
            f"{checkpoint.path}: calibration walks through aireprune's own models (S5, S4D, Mamba), and this checkpoint "
            f"holds a {type(model).__name__}."
        )
    pruned = prune_calibrated(model, inputs, count, plan, **options)
    applied = replace(cast(Plan, pruned.plan), source=str(checkpoint.path.resolve()))
    pruned.plan = applied  # type: ignore[assignment]  # what `save` writes beside the weights
    if checkpoint.path.is_file() and not target.suffix:
        save(pruned, target, overwrite)
        return applied
    config: Any = pruned.config
    names = [layer.name for layer in opened.layers]
    new_config = resized_config(checkpoint.kind, checkpoint.config, names, config.states)
    todo = file_edits(checkpoint, model, pruned)
    checkpoint.write(target, opened.edits(todo), new_config, {"plan.json": applied.to_json()}, overwrite)
    return applied


def file_edits(checkpoint: Checkpoint, full: nn.Module, pruned: nn.Module) -> dict[str, Edit]:
    """The tensors of a file that differ between the two models, under the names and in the form the file has."""
    before, after = ({name: to_numpy(t) for name, t in m.state_dict().items()} for m in (full, pruned))
    todo: dict[str, Edit] = {}
    for name in checkpoint.shapes:
        own = torch_name(name) if getattr(full, "family", "") == "s5" else name
        parts = [own + "_re", own + "_im"] if own.endswith(".Lambda") else [own]
        if all(part in after and not np.array_equal(before[part], after[part]) for part in parts[:1]):
            new = after[parts[0]] if len(parts) == 1 else after[parts[0]] + 1j * after[parts[1]]
            todo[name] = partial(_in_the_form_of, new)
    return todo


def _in_the_form_of(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(old) and not np.iscomplexobj(new):
        new = new[..., 0] + 1j * new[..., 1]
    if new.ndim == old.ndim + 1:  # log_step as a column
        new = new[..., 0]
    return np.asarray(new.astype(old.dtype))


def _reduce_of(plan: Plan | None, options: dict[str, Any]) -> str:
    return str(plan.reduce if plan else options.get("reduce", "truncate"))
