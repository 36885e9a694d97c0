"""What goes with a pruned model into a Hugging Face folder: its plan and its card.

A checkpoint that is written gets both. A transformers model that was pruned in memory gets them from its own
`save_pretrained`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from aireprune.families.mamba2 import is_projected
from aireprune.files.folder import PLAN
from aireprune.files.front_matter import README
from aireprune.files.urls import as_url, found_at
from aireprune.files.writing.atomic import atomic_path
from aireprune.pruning.base_model import base_model
from aireprune.pruning.card import Card, Judged
from aireprune.pruning.outcome import Outcome
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import FileSource, open_module
from aireprune.pruning.surgery import stored_sizes

if TYPE_CHECKING:
    from torch import nn

    from aireprune.pruning.outcome import Pruned


def texts_for(source: FileSource, done: Pruned, target: Path, mask: bool) -> dict[str, str]:
    """The small texts that are written with a pruned checkpoint, by name."""
    card = card_of(source, done, target, mask)
    return {PLAN: done.plan.to_json(), **({} if card is None else {README: card})}


def card_of(source: FileSource, done: Pruned, target: Path, mask: bool, judged: Judged | None = None) -> str | None:
    """The card of a folder that is pruned to `target`; other kinds of checkpoints have none."""
    if source.kind != "huggingface":
        return None
    name = PurePosixPath(as_url(target) or str(target)).name
    return Card(
        base=base_model(source.origin or source.name, source.checkpoint.path),
        plan=done.plan,
        outcome=done.outcome,
        target=name,
        call=folder_call(source, name, done.plan, mask),
        mask=mask,
        judged=judged,
    ).text()


def write_card(target: Path, text: str) -> None:
    """A new card for a folder that is there already."""
    if (url := as_url(target)) is None:
        with atomic_path(target / README) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return
    with found_at(url) as (filesystem, root):
        filesystem.pipe_file(f"{root}/{README}", text.encode())


def folder_call(source: FileSource, where: str, plan: Plan, mask: bool) -> str:
    """Code that loads the pruned copy of a Hugging Face folder; stock code knows no projections and no varied sizes."""
    varied = len(set(stored_sizes(source.layers, plan, mask))) > 1
    if varied or plan.reduce == "projected" or any(map(is_projected, source.layers)):
        return f'aireprune.load("{where}")'
    return _pretrained(source.config, where)


def keep_plan(model: nn.Module, plan: Plan) -> None:
    """Give a pruned model its plan, which `aireprune.save` and transformers' `save_pretrained` then write."""
    from aireprune.tasks.fit import is_transformers

    model.plan = plan  # type: ignore[assignment]
    if is_transformers(model):
        saving: Any = partial(_save_pretrained, model)  # unlike a bound method, this can be pickled
        model.save_pretrained = saving


def _save_pretrained(model: Any, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
    """transformers' own, and plan.json and a card beside the weights; a card that is there already stays."""
    type(model).save_pretrained(model, save_directory, *args, **kwargs)
    folder = Path(save_directory)
    if not folder.is_dir() or not kwargs.get("is_main_process", True):
        return
    model.plan.save(folder / PLAN)
    if not (folder / README).exists():
        write_card(folder, _card_in_memory(model, folder.resolve().name))


def _card_in_memory(model: Any, name: str) -> str:
    plan: Plan = model.plan
    sizes = {layer.states // layer.groups for layer in open_module(model, units=plan.units).layers}
    stock = len(sizes) == 1 and plan.reduce != "projected"
    config = {"model_type": model.config.model_type, "architectures": [type(model).__name__]}
    return Card(
        base=base_model(model.name_or_path or type(model).__name__),
        plan=plan,
        outcome=Outcome.of(plan),
        target=name,
        call=_pretrained(config, name) if stock else f'aireprune.load("{name}")',
    ).text()


def _pretrained(config: Mapping[str, Any], where: str) -> str:
    if "model_type" not in config:
        return f'MambaLMHeadModel.from_pretrained("{where}")'
    name = str((config.get("architectures") or [""])[0])
    factory = "AutoModelForCausalLM" if name.endswith("ForCausalLM") else name or "AutoModel"
    return f'{factory}.from_pretrained("{where}")'
