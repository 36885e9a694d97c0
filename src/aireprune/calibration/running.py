"""How other people's models are run here: in evaluation mode, without caches of past tokens, on the fast kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from aireprune.models.accelerate import fast_scans
from aireprune.models.evaluation import evaluation_mode


@contextmanager
def running(*models: nn.Module) -> Iterator[None]:
    """The models as calibration runs them; afterwards everything about them is as it was."""
    with ExitStack() as stack:
        stack.enter_context(evaluation_mode(*models))
        for model in models:
            stack.enter_context(fast_scans(model))
            stack.enter_context(_without_cache(getattr(model, "config", None)))
        yield


@contextmanager
def _without_cache(config: Any) -> Iterator[None]:
    if not isinstance(getattr(config, "use_cache", None), bool):
        yield
        return
    before = config.use_cache
    config.use_cache = False
    try:
        yield
    finally:
        config.use_cache = before
