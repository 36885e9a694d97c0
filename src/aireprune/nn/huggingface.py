"""Hugging Face folders as transformers models, adaptive sizes included."""

from __future__ import annotations

import importlib.util
from typing import Any

from torch import nn

from aireprune.errors import AireError
from aireprune.sources import Source


def load_pretrained(source: Source) -> nn.Module:
    """The model of a Hugging Face folder, loaded by stock transformers.

    Layers of different sizes are described by transformers' per-layer configuration. `ignore_mismatched_sizes` is never
    used: it would replace tensors that do not fit by random ones without an error.
    """
    if importlib.util.find_spec("transformers") is None:
        raise AireError(f"{source.name} is a Hugging Face model: loading it needs transformers (pip install aireprune[hf]).")
    import transformers

    checkpoint = source.checkpoint
    assert checkpoint is not None
    config = transformers.AutoConfig.from_pretrained(checkpoint.path)
    if source.config.get("per_layer_config") and not hasattr(type(config), "per_layer_config"):
        raise AireError(
            f"{source.name} has layers of different sizes, which transformers {transformers.__version__} cannot describe; "
            "version 5 can. Prune with --layout uniform or padded to get a checkpoint for older versions."
        )
    names = source.config.get("architectures") or []
    factory: Any = getattr(transformers, names[0], None) if names else transformers.AutoModel
    if factory is None:
        raise AireError(f"{source.name}: transformers {transformers.__version__} has no {names[0]}.")
    model, report = factory.from_pretrained(checkpoint.path, config=config, dtype="auto", output_loading_info=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if report.get(what):
            raise AireError(f"{source.name}: transformers reports {what.replace('_', ' ')}: {sorted(report[what])[:5]}.")
    return model.eval()
