"""Hugging Face folders as transformers models, adaptive sizes included."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.files.base import Checkpoint
from aireprune.files.sizes import STATE_SIZE_KEYS
from aireprune.models.editing import project_module, resize_module, settle_config
from aireprune.models.streamed import without_values


def load_pretrained(found: Found, checkpoint: Checkpoint) -> nn.Module:
    """The model of a Hugging Face folder, loaded by transformers; code that a folder brings along is never run.

    Layers of one size are stock transformers' business. Layers of different sizes (per_layer_config) are built at the
    largest size, cut to their own before any weight is read, and then loaded as usual; so are projected ones, which get
    their projections on the way. `ignore_mismatched_sizes` is never used: it would replace tensors that do not fit by
    random ones without an error.
    """
    if importlib.util.find_spec("transformers") is None:
        raise AireError(
            f"{found.name} is a Hugging Face model: loading it needs transformers (pip install aireprune[hf])."
        )
    import transformers

    factory = _factory(transformers, found)
    sizes = [layer.states // layer.groups for layer in found.layers]
    if not found.config.get("per_layer_config") and value_sizes(found) == sizes:
        return _loaded(factory, found.name, checkpoint.path)
    if factory is transformers.AutoModel:
        raise AireError(
            f"{found.name}: config.json names no architecture, so its layers of different sizes have no class."
        )
    with _explained(found.name):
        config = _full_config(transformers, found, checkpoint)
    model = _loaded(_resized(factory, value_sizes(found), sizes), found.name, checkpoint.path, config=config)
    model.__class__ = factory
    settle_config(model, found.layers, sizes)
    return model


def empty_model(found: Found, checkpoint: Checkpoint, sizes: Sequence[int], projected: bool = False) -> nn.Module:
    """The model of a Hugging Face folder with layers of these sizes, without the values of its parameters.

    They are on the meta device (`aireprune.models.streamed`); buffers that no checkpoint holds have their values.
    projected: layers get these sizes by projections.
    """
    import transformers
    from transformers.initialization import no_init_weights

    factory = _factory(transformers, found)
    with _explained(found.name), without_values(), no_init_weights():
        config = _full_config(transformers, found, checkpoint)
        build = factory.from_config if factory is transformers.AutoModel else factory._from_config
        model: Any = build(config, dtype=torch.float32)
    model.tie_weights()
    given = zip(found.layers, value_sizes(found), sizes, strict=True)
    resize_module(
        model, [values if projected or values > layer.states // layer.groups else n for layer, values, n in given]
    )
    project_module(model, sizes)
    empty: nn.Module = model.eval()
    return empty


def value_sizes(found: Found) -> list[int]:
    """Values of B (and of C) that every layer makes per group: more than it has states if it is projected."""
    return [
        layer.options.values if layer.family == "mamba2" else layer.states // layer.groups for layer in found.layers
    ]


def _full_config(transformers: Any, found: Found, checkpoint: Checkpoint) -> Any:
    """The configuration without what it says about single layers, at the largest size."""
    config = transformers.AutoConfig.from_pretrained(checkpoint.path, trust_remote_code=False, local_files_only=True)
    config.per_layer_config = None
    largest = max(value_sizes(found))
    for key in STATE_SIZE_KEYS:
        if getattr(config, key, largest) < largest:
            setattr(config, key, largest)
    return config


def _factory(transformers: Any, found: Found) -> Any:
    """The class that config.json names, if it is one of transformers' own models."""
    if not isinstance(found.config.get("model_type"), str):
        raise AireError(
            f"{found.name}: config.json names no model_type, so transformers cannot load it (a mamba_ssm folder loads with "
            "mamba_ssm). The folder itself can be inspected, scored and pruned."
        )
    names = found.config.get("architectures")
    if names is None or names == []:
        return transformers.AutoModel
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise AireError(f"{found.name}: architectures in config.json is {names!r}; expected a list of class names.")
    factory = getattr(transformers, names[0], None)
    if factory is None:
        raise AireError(f"{found.name}: transformers {transformers.__version__} has no {names[0]}.")
    if not isinstance(factory, type) or not issubclass(factory, transformers.PreTrainedModel):
        raise AireError(f"{found.name}: config.json names {names[0]}, which is not a model class of transformers.")
    return factory


def _resized(factory: Any, values: Sequence[int], sizes: Sequence[int]) -> Any:
    """The class with layers of these sizes, projected from so many values; named as the original, because transformers
    looks at names."""

    def init(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        factory.__init__(self, config, *args, **kwargs)
        built = {key: config.__dict__[key] for key in STATE_SIZE_KEYS if key in config.__dict__}
        resize_module(self, values)
        project_module(self, sizes)
        config.__dict__.update(built)  # transformers computes buffers from it once the weights are read

    return type(factory.__name__, (factory,), {"__init__": init, "__module__": factory.__module__})


def _loaded(factory: Any, name: str, path: Path, config: Any = None) -> nn.Module:
    given = {} if config is None else {"config": config}
    with _explained(name), _without_bars():
        model, report = factory.from_pretrained(
            path, dtype="auto", output_loading_info=True, trust_remote_code=False, local_files_only=True, **given
        )
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if report.get(what):
            raise AireError(
                f"{name}: transformers reports {what.replace('_', ' ')}: {sorted(map(str, report[what]))[:5]}."
            )
    loaded: nn.Module = model.eval()
    return loaded


@contextmanager
def _without_bars() -> Iterator[None]:
    """transformers without its progress bars where standard error is not a terminal: a log would hold every step."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    if shown and not sys.stderr.isatty():
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Whatever transformers raises about a folder, as one sentence."""
    try:
        yield
    except AireError:
        raise
    except Exception as problem:
        first = (str(problem).strip() or type(problem).__name__).splitlines()[0].rstrip(".")
        raise AireError(f"{name}: transformers cannot load it: {first[:300]}.") from problem
