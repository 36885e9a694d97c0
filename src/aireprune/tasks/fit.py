"""Does a model take what a task gives, and answer what it asks? What does not fit is refused before anything runs."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.models.model_config import ModelConfig
from aireprune.tasks.base import BYTES, Split, Task


def check_fit(model: nn.Module, task: Task, name: str = "The model") -> None:
    """Of our own and of transformers models the sizes are known; of others only what they put out (`check_outputs`).

    name: how an error calls the model.
    """
    config = getattr(model, "config", None)
    if isinstance(config, ModelConfig):
        _check_own(config, task, name)
    elif is_transformers(model):
        _check_transformers(model, task, f"{name} ({type(model).__name__})")


def check_outputs(logits: Tensor, task: Task, part: Split) -> None:
    """Raise unless there is a number for every class, of every example or of every step."""
    wanted = (*part.y.shape, task.classes)
    found = tuple(logits.shape)
    if found[:-1] != wanted[:-1] or found[-1] < wanted[-1]:
        raise AireError(
            f"The model does not fit task {task.name}: its outputs have shape {found}, and the task's answers need {wanted}."
        )


def is_transformers(model: nn.Module) -> bool:
    return callable(getattr(model, "get_input_embeddings", None))


def known_tokens(model: nn.Module) -> int | None:
    """How many different tokens a language model knows; None for a model that does not predict tokens."""
    config: Any = getattr(model, "config", None)
    if isinstance(config, ModelConfig):
        values = config.to_dict()
        return values["d_input"] if values["mode"] == "tokens" and values["d_input"] == values["d_output"] else None
    if not is_transformers(model):
        return None
    any_model: Any = model
    head = any_model.get_output_embeddings()
    return None if head is None else int(any_model.get_input_embeddings().weight.shape[0])


def _check_own(config: ModelConfig, task: Task, name: str) -> None:
    values: dict[str, Any] = config.to_dict()
    for key, wanted, what, counted in (
        ("d_input", task.d_input, "takes {} values per step (or so many different tokens)", task.takes_tokens),
        ("d_output", task.classes, "gives {} outputs", True),
        ("retrieval", task.pairs, "compares pairs of documents: {}", False),
    ):
        if values[key] < wanted if task.at_least and counted else values[key] != wanted:
            raise AireError(
                f"{name} does not fit task {task.name}: it {what.format(values[key])}, and the task has {wanted}."
            )
    if (values["mode"] == "tokens") != task.language:
        kind = "every step" if task.language else "whole sequences"
        raise AireError(f"{name} does not fit task {task.name}, which asks about {kind} (mode {values['mode']}).")


def _check_transformers(model: Any, task: Task, name: str) -> None:
    refused = f"{name} does not fit task {task.name}:"
    known = int(model.get_input_embeddings().weight.shape[0])
    if not task.takes_tokens:
        raise AireError(f"{refused} it takes tokens, and the task has values ({task.d_input} per step).")
    if task.pairs or task.test.lengths is not None:
        raise AireError(f"{refused} pairs and padded sequences are for our own models.")
    if not task.language:
        _check_classifier(model, task, refused)
    elif model.get_output_embeddings() is None:
        raise AireError(f"{refused} it has no head that predicts tokens.")
    elif task.d_input == BYTES != known and task.bytes_per_token == 1:
        raise AireError(
            f"{refused} the task consists of bytes, and the model has {known:,} tokens of its own. Judge it on a text "
            "(text=FILE), which is read with its own tokenizer."
        )
    if task.d_input > known:
        raise AireError(f"{refused} the task has {task.d_input:,} different tokens, and the model knows {known:,}.")


def _check_classifier(model: Any, task: Task, refused: str) -> None:
    if not type(model).__name__.endswith("ForSequenceClassification"):
        raise AireError(f"{refused} it predicts tokens, and the task asks for classes of whole sequences.")
    if model.config.num_labels < task.classes:
        raise AireError(f"{refused} it knows {model.config.num_labels} classes, and the task has {task.classes}.")
