"""Models and checkpoints: load, plan, prune, calibrate, save, export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from aireprune.api.notices import tell
from aireprune.errors import AireError
from aireprune.families import StateAxes, Units
from aireprune.files.base import Checkpoint
from aireprune.method.methods import METHODS, Method
from aireprune.pruning.defaults import settle
from aireprune.pruning.plan import Plan
from aireprune.pruning.preview import plan_job
from aireprune.pruning.prune import prune_checkpoint, prune_from_file, prune_module
from aireprune.pruning.request import (
    AUTO,
    CALIBRATION_COUNT,
    Job,
    PlanChoices,
    PruneChoices,
    make_job,
    make_request,
)
from aireprune.pruning.rows import with_short_rows
from aireprune.pruning.source import ConfigLike, FileSource, open_file, open_module, open_source

if TYPE_CHECKING:
    from torch import Tensor, nn

    from aireprune.calibration.inputs import InputSource
    from aireprune.exports.outcome import Exported
    from aireprune.exports.request import ExportChoices
    from aireprune.models.decoding.generate import Generation
    from aireprune.models.decoding.request import GenerateChoices
    from aireprune.tasks.base import Task

    ModelOrPath = nn.Module | str | Path


def methods() -> dict[str, Method]:
    """Every pruning method by name: its criterion, normalisation and scope."""
    return dict(METHODS)


def load(path: str | Path, config: ConfigLike = None, *, state_axis: Sequence[str] = ()) -> nn.Module:
    """The model of a checkpoint, in evaluation mode, with its weights as they are on disk.

    `config` (a mapping or a JSON file) supplies what a Flax or bare weight file does not say; by default it is looked
    for in NAME.json beside the file. Hugging Face folders are loaded with transformers and get the fast scans
    (`accelerate`) where these serve them; code that they bring along is never run. Their tokenizer is that of
    `model.name_or_path`. state_axis: as in `plan`.
    """
    source = open_file(path, config, Units(state_axes=StateAxes.parse(state_axis)))
    model = source.build()
    if source.kind == "huggingface":
        from aireprune.models.accelerate import can_accelerate

        return accelerate(model) if can_accelerate(model) else model
    return model


def save(model: nn.Module, path: str | Path, overwrite: bool = False) -> None:
    """Write one of our models as a folder: config.json, model.safetensors and, if it was pruned, plan.json."""
    from aireprune.models.saving import save_model

    save_model(model, path, overwrite)


def accelerate(model: nn.Module) -> nn.Module:
    """Give every Mamba and Mamba-2 mixer of a transformers model on a CPU the fast scans, in place; returns the model."""
    from aireprune.models.accelerate import accelerate as run

    return run(model)


def generate(model: nn.Module, tokens: Tensor, **choices: Unpack[GenerateChoices]) -> Generation:
    """Go on with a text on the CPU: tokens (b, L) or (L,) of one length, and what follows them.

    Takes transformers' Mamba, Mamba-2 and FalconMamba language models, pruned or not, and our own. One text of a Mamba or
    Mamba-2 is decoded by a kernel of ours that reads every weight once per token; what it prepares is kept while the
    weights stay the same (writing through `.data` is not noticed).
    max_new_tokens=128. temperature=0: the likeliest token; above it, one is drawn, from the top_k=0 likeliest (0: all) and
    from those that together have top_p=1.0 of the probability; seed= makes draws repeat themselves.
    stop: a token or several that end a text; by default as the model's generation_config says.
    weights: 'float32', as the model has them, or 'int8': matrices rounded to 8 bits, in blocks of 64 with a factor each.
    The text itself is read with the model's own weights; `logit_error` of the result is what rounding does to logits.
    on_token: called with the new tokens (b,) as they come.
    """
    from aireprune.models.decoding.generate import generate as run
    from aireprune.models.decoding.request import make_generate_request

    return run(model, tokens, make_generate_request(choices))


def plan(
    model_or_path: ModelOrPath | Checkpoint,
    method: str = AUTO,
    ratio: float | None = None,
    *,
    config: ConfigLike = None,
    **choices: Unpack[PlanChoices],
) -> Plan:
    """Score every state and decide which stay. What is not named is chosen as `aireprune.pruning.defaults` says.

    ratio: share of all states to remove (0 to 1); or threshold=: the score below which states go.
    min_states=1: at least so many stay in every layer. epsilon=0: added to the prefix sums; with min_states=0 it lets
    whole layers go. horizon=: count the first so many steps only, in energies and Gramians. seed=0: for method 'random'.
    unstable: what to do about poles with |lambda| >= 1: 'refuse' (raise) or 'keep' (they always stay).
    layout: 'adaptive' (every layer its own size), 'uniform' (one size for all) or 'padded' (chosen as adaptive, filled
    up to one size). By default linear layers of ours are adaptive, others uniform, as their own code loads them.
    granularity (S4D): 'mode', every channel chooses its own, or 'state', one index for all channels.
    state_axis: 'NAME=AXIS' of tensors that no family knows but that lie along the states ('NAME=none': they do not).
    round_to=1: round the states kept in every layer (and group) up to a multiple.
    target: the engine that the result is made for, which decides on layout and rounding (docs/targets.md).
    reduce: 'truncate' (kept states stay as they are), 'refit' (they get the H2-optimal readout) or 'balanced' (balanced
    truncation, which ranks its new states by squared Hankel singular values; method 'aire' only). S5, LRU and S4D, for
    which 'balanced' is the default; the paper's way is method='aire', reduce='truncate'. Mamba-2, from measured moments:
    'projected' (new states, whose gates two more tensors make) or 'fitted' (in the layout that stock code loads; the
    default of `prune` with calibrate=).
    covariances: for 'balanced', measured ones of the states (Re x, Im x) of each layer in place of closed forms; for
    'projected' and 'fitted', the moments of each layer (`calibration.covariance.measured_covariances`).
    measured: for '…-calibrated' methods, the scores of each layer's states (`calibration.damage.measured_scores`).
    """
    request, evidence = make_request(method, ratio, choices)
    opened = open_source(model_or_path, config, request.units)
    source, job = settle(opened, Job(request=request, evidence=evidence), own=opened.is_own)
    if isinstance(source, FileSource):  # as `prune_file` decides for a copy of the same kind
        job = with_short_rows(job, source)
    done = plan_job(source, job)
    tell(done.notices)
    return done.plan


def prune(
    model_or_path: ModelOrPath,
    plan: Plan | None = None,
    *,
    config: ConfigLike = None,
    module: str | None = None,
    **choices: Unpack[PruneChoices],
) -> nn.Module:
    """A new, smaller model; the one given stays as it is. Give a plan, or what `plan` takes to make one (ratio=0.5).

    Works on our own models, transformers (Mamba, Mamba-2, FalconMamba, Jamba), mambapy and s5-pytorch modules.
    mask=True: silence the states instead of taking them out (same shapes, same outputs as the removal).
    covariances: measured ones of the states of each layer, which balancing and refitting use in place of closed forms.
    calibrate: unlabelled inputs: any iterable of batches that the model takes (tensors, tuples of arguments, mappings of
    keyword arguments, a DataLoader), an array, a task's name, a .npy or .npz file or a directory of them; at most
    calibrate_count=256 sequences are used. For a checkpoint with a tokenizer, or a model of bytes, also a text, of which
    calibrate_tokens=65536 tokens are used. Covariances are then measured, and readouts fitted to the full model.
    recover: minutes in which all parameters then learn from the full model, without labels, on at most
    recover_count=20000 sequences of `calibrate`; recover_steps: so many steps instead, whatever time they take.
    module: 'path.py:build_model', code of yours that builds the module of a checkpoint whose architecture is not known.
    The plan that was applied, with its certificate, is the attribute `plan` of the new model.
    """
    job = make_job(plan, choices)
    if job.shards.resume or job.shards.ray:
        raise AireError(
            "resume= and ray= are about the shards of a folder: use aireprune.prune_file, which writes them."
        )
    source = open_source(model_or_path, config, job.units, module)
    done = prune_from_file(source, job) if isinstance(source, FileSource) else prune_module(source, job)
    tell(done.notices)
    assert done.model is not None
    return done.model


def calibrate(full: nn.Module, reduced: nn.Module, inputs: InputSource, count: int = CALIBRATION_COUNT) -> nn.Module:
    """A reduced model with readouts fitted to the full one on unlabelled inputs, for any torch module.

    Where they do not help on inputs that were held out, it is the reduced model itself.

    inputs: as `calibrate` of `prune`.
    """
    from aireprune.calibration.checks import DID_NOT_HELP, check_inputs, fit_if_it_helps
    from aireprune.calibration.inputs import read_inputs
    from aireprune.calibration.subject import find_subject

    given = read_inputs(inputs, count)
    tell(check_inputs(full, given))
    fitted, fit = fit_if_it_helps(find_subject(open_module(full), given), open_module(reduced), given)
    if not fit.helped:
        tell([DID_NOT_HELP])
    return fitted


def prune_file(
    source: str | Path | Checkpoint,
    out: str | Path,
    /,
    plan: Plan | None = None,
    *,
    overwrite: bool = False,
    config: ConfigLike = None,
    module: str | None = None,
    **choices: Unpack[PruneChoices],
) -> Plan:
    """Prune a checkpoint on disk into a new one of the same kind, without building the model; returns the plan applied.

    An output without a suffix, for a source that is a single file with one, becomes a folder in our own format; that
    builds the model, and so does calibration. The choices are those of `prune`; a recovery that was interrupted goes on
    where it stopped if it is asked for again. layer_inputs: a folder with one array (n, L, h) per
    linear layer, NAME.npy, to calibrate layers with where no model can be built.
    """
    job = make_job(plan, choices)
    done = prune_checkpoint(open_file(source, config, job.units, module), Path(out), job, overwrite)
    tell(done.notices)
    return done.plan


def export(
    model_or_path: ModelOrPath,
    target: str | Path,
    to: str | None = None,
    *,
    task: Task | str | None = None,
    overwrite: bool = False,
    **choices: Unpack[ExportChoices],
) -> Exported:
    """Write a model or checkpoint as a file for another engine, which is run and not kept if its outputs differ.

    to: 'onnx' (our models, transformers' Mamba and Mamba-2), 'gguf' (Hugging Face folders of one state size) or 'torch' (a
    torch.export program); by default as the target's suffix says (.onnx, .gguf, .pt2).
    task: compare on its first examples too. ONNX: step=True takes one step at a time, with states as inputs and outputs;
    opset=20; inputs='tokens' or 'numbers' says what a classifier takes; int8=True stores projections in 8 bits.
    GGUF: weights='f32', 'f16' or 'q8_0'.
    """
    from aireprune.exports.export import export_source
    from aireprune.exports.request import make_export_request

    path = Path(target)
    request = make_export_request(path, to, choices)
    done = export_source(open_source(model_or_path), path, request, task, overwrite)
    tell(done.notices)
    return done
