"""The public functions. Each takes a model in memory or a path to a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aireprune.errors import AireError
from aireprune.files.base import Checkpoint
from aireprune.method.methods import METHODS, Method, reduction
from aireprune.method.selection import Budget
from aireprune.pruning.layers import Reduced, certified, layer_hankel_scores, lti_family, reduce_layers
from aireprune.pruning.plan import Plan, make_plan, unstable_states
from aireprune.pruning.source import ConfigLike, Source, open_source
from aireprune.pruning.surgery import edits, padding, stored_sizes

if TYPE_CHECKING:
    from torch import nn

    from aireprune.calibration.inputs import InputSource

    ModelOrPath = nn.Module | str | Path

FORMAT = "aireprune"
Covariances = Sequence[np.ndarray | None] | None


def methods() -> dict[str, Method]:
    """Every pruning method by name: its criterion, normalisation and scope."""
    return dict(METHODS)


def load(path: str | Path, config: ConfigLike = None) -> nn.Module:
    """The model of a checkpoint, in evaluation mode, with its weights as they are on disk.

    `config` (a mapping or a JSON file) supplies what a Flax or bare weight file does not say; by default it is looked
    for in NAME.json beside the file. Hugging Face folders are loaded with transformers.
    """
    from aireprune.models.build import build_model

    return build_model(open_source(path, config))


def save(model: nn.Module, path: str | Path, overwrite: bool = False) -> None:
    """Write one of our models as a folder: config.json, model.safetensors and, if it was pruned, plan.json."""
    from aireprune.files import write_folder
    from aireprune.models.arrays import ModuleArrays, is_own, own_config

    if not is_own(model):
        raise AireError(
            f"save writes aireprune's own models; a {type(model).__name__} is saved by its own library, for "
            "example with save_pretrained."
        )
    arrays = ModuleArrays(model)
    applied = getattr(model, "plan", None)
    extras = {} if applied is None else {"plan.json": applied.to_json()}
    tensors = {name: arrays[name] for name in arrays.shapes}
    write_folder(Path(path), tensors, {"format": FORMAT, **own_config(model)}, extras, overwrite)


def accelerate(model: nn.Module) -> nn.Module:
    """Give every Mamba and Mamba-2 mixer of a transformers model on a CPU the fast scans, in place; returns the model."""
    from aireprune.models.accelerate import accelerate as run

    return run(model)


def plan(
    model_or_path: ModelOrPath | Checkpoint,
    method: str = "aire",
    ratio: float | None = None,
    *,
    threshold: float | None = None,
    min_states: int = 1,
    epsilon: float = 0.0,
    horizon: int | None = None,
    seed: int = 0,
    unstable: str = "refuse",
    layout: str = "adaptive",
    granularity: str = "mode",
    round_to: int = 1,
    reduce: str = "truncate",
    covariances: Covariances = None,
    measured: Covariances = None,
    config: ConfigLike = None,
) -> Plan:
    """Score every state and decide which stay.

    ratio: share of all states to remove (0 to 1); or threshold: the score below which states go.
    min_states: at least so many stay in every layer. epsilon: added to the prefix sums; with min_states=0 it lets whole
    layers go. horizon: count the energy of the first so many steps only. seed: for method 'random'.
    unstable: what to do about poles with |lambda| >= 1: 'refuse' (raise) or 'keep' (they always stay).
    layout: 'adaptive' (every layer its own size), 'uniform' (one size for all) or 'padded' (chosen as adaptive, filled
    up to one size). granularity (S4D): 'mode', every channel chooses its own, or 'state', one index for all channels.
    round_to: round the states kept in every layer (and group) up to a multiple.
    reduce: 'truncate' (kept states stay as they are), 'refit' (they get the H2-optimal readout) or 'balanced' (balanced
    truncation, which ranks its new states by squared Hankel singular values; method 'aire' only). S5, LRU and S4D.
    covariances: for 'balanced', measured ones of the states (Re x, Im x) of each layer in place of closed forms.
    measured: for '…-calibrated' methods, the scores of each layer's states (`calibration.damage.measured_scores`).
    """
    source = open_source(model_or_path, config, layout, granularity)
    states, hankel = source.states(), None
    if reduction(reduce) != "truncate":
        for layer in source.layers:
            lti_family(layer, f"--reduce {reduce}")
        unstable_states(states, "refuse")
        hankel = (
            layer_hankel_scores(source, horizon, covariances) if reduce == "balanced" and method == "aire" else None
        )
    return make_plan(
        source.layers,
        states,
        source.fingerprint(),
        method,
        Budget(ratio, threshold, min_states),
        epsilon,
        horizon,
        seed,
        unstable,
        round_to,
        layout,
        granularity,
        reduce,
        hankel,
        None if source.checkpoint is None else str(source.checkpoint.path.resolve()),
        measured,
    )


_plan = plan  # `prune` and `prune_file` have an argument of that name


def prune(
    model_or_path: ModelOrPath,
    plan: Plan | None = None,
    *,
    mask: bool = False,
    covariances: Covariances = None,
    calibrate: InputSource | None = None,
    calibrate_count: int = 256,
    config: ConfigLike = None,
    **options: Any,
) -> nn.Module:
    """A new, smaller model; the one given stays as it is. Give a plan, or what `plan` takes to make one (ratio=0.5).

    Works on our own models, transformers (Mamba, Mamba-2, FalconMamba, Jamba), mambapy and s5-pytorch modules.
    mask: silence the states instead of taking them out (same shapes, same outputs as the removal).
    covariances: measured ones of the states of each layer, which balancing and refitting use in place of closed forms.
    calibrate (our own models): unlabelled inputs, as an array, a task's name, a .npy or .npz file or a directory of them;
    at most calibrate_count sequences are used. Covariances are then measured, and readouts fitted to the full model.
    The plan that was applied, with its certificate, is the attribute `plan` of the new model.
    """
    model = load(model_or_path, config) if isinstance(model_or_path, str | Path) else model_or_path
    if calibrate is not None:
        from aireprune.calibration.pipeline import prune_calibrated

        known = None if covariances is None else {"covariances": covariances}
        return prune_calibrated(model, calibrate, calibrate_count, plan, known, mask=mask, **options)
    given, plan = plan is not None, _given_or_made(model, plan, covariances, options)
    if isinstance(model_or_path, str | Path):
        plan = replace(plan, source=str(Path(model_or_path).resolve()))
    source = open_source(model, None, plan.layout, plan.granularity)
    if given:
        plan.check(source.layers, source.arrays)
    return _prune_module(source, plan, mask, covariances)


def calibrate(full: nn.Module, reduced: nn.Module, inputs: InputSource, count: int = 256) -> nn.Module:
    """A copy of a reduced model with readouts fitted to the full one on unlabelled inputs (our own models).

    inputs: an array of model inputs, a task's name, a .npy or .npz file, or a directory of them.
    """
    from aireprune.calibration.readout import calibrate as fit

    return fit(full, reduced, inputs, count)


def prune_file(
    source: str | Path | Checkpoint,
    target: str | Path,
    plan: Plan | None = None,
    *,
    mask: bool = False,
    overwrite: bool = False,
    covariances: Covariances = None,
    calibrate: InputSource | None = None,
    calibrate_count: int = 256,
    config: ConfigLike = None,
    **options: Any,
) -> Plan:
    """Prune a checkpoint on disk into a new one of the same kind, without building the model; returns the plan applied.

    A target without a suffix, for a source that is a single file, becomes a folder in our own format; that builds the
    model, and so does calibration. `options` are those of `plan`; the others are as in `prune`.
    """
    from aireprune.files import open_checkpoint
    from aireprune.files.sizes import resized_config

    checkpoint = open_checkpoint(source, config) if isinstance(source, str | Path) else source
    target = Path(target)
    if calibrate is not None:
        from aireprune.calibration.pipeline import prune_file_calibrated

        opened = open_source(checkpoint)
        options = {**options, "mask": mask}
        return prune_file_calibrated(opened, target, calibrate, calibrate_count, plan, overwrite, options)
    given, plan = plan is not None, _given_or_made(checkpoint, plan, covariances, options)
    opened = open_source(checkpoint, None, plan.layout, plan.granularity)
    if given:
        plan.check(opened.layers, opened.arrays)
    checkpoint.notices.extend(notice for notice in opened.notices if notice not in checkpoint.notices)
    if not mask:
        checkpoint.notices.extend(_filled_rows(opened, plan))
    if checkpoint.path.is_file() and not target.suffix:
        from aireprune.models.build import build_model

        model = open_source(build_model(opened), None, plan.layout, plan.granularity)
        pruned = _prune_module(model, plan, mask, covariances)
        save(pruned, target, overwrite)
        return cast(Plan, pruned.plan)
    names = [layer.name for layer in opened.layers]
    reduced = _reduced(opened, plan, mask, covariances)
    plan = certified(plan, reduced)
    new_config = resized_config(checkpoint.kind, checkpoint.config, names, reduced.sizes)
    checkpoint.write(target, opened.edits(reduced.edits), new_config, {"plan.json": plan.to_json()}, overwrite)
    return plan


def _filled_rows(source: Source, plan: Plan) -> list[str]:
    """What to say about S4D layers whose channels keep different numbers of modes."""
    sizes = stored_sizes(source.layers, plan)
    stored = sum(size * layer.options.get("copies", 0) for layer, size in zip(source.layers, sizes, strict=True))
    ragged = [layer for layer in source.layers if layer.options.get("granularity") == "mode"]
    if len(ragged) < len(source.layers) or stored <= plan.kept:
        return []
    return [
        f"channels keep different numbers of modes; rows are filled up to the longest with silent modes ({stored} are "
        f"stored for {plan.kept} kept), which are skipped at inference. --layout uniform or --granularity state gives "
        "a smaller file."
    ]


def _given_or_made(
    what: nn.Module | Checkpoint, plan: Plan | None, covariances: Covariances, options: dict[str, Any]
) -> Plan:
    if plan is not None and not isinstance(plan, Plan):
        raise AireError(f"plan is a Plan (aireprune.plan, Plan.load), not a {type(plan).__name__}; a share is ratio=…")
    if plan is None:
        return _plan(what, covariances=covariances, **options)
    if options:
        raise AireError("The plan already says what to keep; give either a plan, or a ratio or threshold and options.")
    return plan


def _reduced(source: Source, plan: Plan, mask: bool, covariances: Covariances) -> Reduced:
    """The edits that a plan asks for; masked, they silence states instead of taking them out."""
    if mask and plan.reduce != "truncate":
        raise AireError(
            f"A mask leaves every state as it is or silences it, so it cannot go with --reduce {plan.reduce}."
        )
    reduced = reduce_layers(source, plan, covariances)
    if not mask:
        return reduced
    return replace(reduced, edits=edits(source.layers, plan, mask), sizes=stored_sizes(source.layers, plan, mask))


def _prune_module(source: Source, plan: Plan, mask: bool, covariances: Covariances) -> nn.Module:
    from aireprune.models.arrays import edit_copy, edit_own, is_own
    from aireprune.models.editing import prune_module

    assert source.module is not None
    reduced = _reduced(source, plan, mask, covariances)
    if plan.reduce == "truncate":
        pruned = prune_module(source.module, source.layers, plan, mask, padding(source.layers, plan))
    elif is_own(source.module):
        pruned = edit_own(source.module, reduced.edits, reduced.sizes)
    else:
        pruned = edit_copy(source.module, reduced.edits, [layer.name for layer in source.layers])
    pruned.plan = certified(plan, reduced)  # type: ignore[assignment]  # what `save` writes beside the weights
    return pruned
