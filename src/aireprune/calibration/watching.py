"""One pass of the full model over inputs, in which layers are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from aireprune.calibration.calls import Call
from aireprune.calibration.running import running
from aireprune.calibration.subject import Subject

Look = Callable[[Call], None]


@torch.no_grad()
def watch(full: Subject, calls: Iterable[Call], looks: Mapping[str, Look]) -> None:
    """Show every look what its site is called with. looks: by the names of layers; the others are not watched."""
    with running(full.module):
        hooks = [
            full.module.get_submodule(site.module).register_forward_pre_hook(
                _shown(looks[site.layer.name]), with_kwargs=True
            )
            for site in full.sites
            if site.layer.name in looks
        ]
        try:
            for call in calls:
                call.on(full.module)
        finally:
            for hook in hooks:
                hook.remove()


def _shown(look: Look) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        look(Call(args, kwargs))

    return hook
