"""The same least squares for an ordinary dense layer behind a reduced one: out_proj of Mamba, the mixing of S4D."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.calibration.calls import Call
from aireprune.calibration.moments import Moments, best_change
from aireprune.calibration.sampling import some, stride_for

ROWS = 2**15  # time steps on which a dense layer is fitted at least,
PER_FEATURE = 128  # and for every feature

Stream = Iterable[tuple[Tensor, Tensor, bool]]  # features (b, L, f), target (b, L, o), held out


class _Enough(Exception):
    """Ends a call once what was wanted of it has been seen."""


def input_of(linear: nn.Module, module: nn.Module, call: Call) -> Tensor:
    """What a dense layer inside a module reads during a call of the module, (b, L, f)."""
    seen: list[Tensor] = []

    def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
        seen.append(args[0])
        raise _Enough

    _until(linear.register_forward_pre_hook(hook), module, call)
    return channels_last(linear, seen[0])


def output_of(linear: nn.Module, module: nn.Module, call: Call) -> Tensor:
    """What a dense layer inside a module puts out, (b, L, o)."""
    seen: list[Tensor] = []

    def hook(_: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        seen.append(output)
        raise _Enough

    _until(linear.register_forward_hook(hook), module, call)
    return channels_last(linear, seen[0])


def _until(handle: Any, module: nn.Module, call: Call) -> None:
    try:
        call.on(module)
    except _Enough:
        pass
    finally:
        handle.remove()


def channels_last(linear: nn.Module, x: Tensor) -> Tensor:
    """What goes in or out of a dense layer as (b, L, channels); torch's convolutions have the channels before time."""
    first = isinstance(linear, nn.Conv1d) and not getattr(linear, "channels_last", False)
    return x.transpose(-1, -2) if first else x


def matrix(linear: nn.Module) -> Tensor:
    """The weights (o, f) of a dense layer, or of a convolution of width 1; a view."""
    weight: Tensor = linear.weight  # type: ignore[assignment]
    return weight[:, :, 0] if weight.ndim == 3 else weight


def fit_linear(weight: Tensor, bias: Tensor | None, stream: Stream, tokens: int) -> None:
    """Change weight (o, f) and bias (o,), in place, so that features are mapped to targets.

    tokens: how many the stream holds; of more than some hundred for every feature, every stride-th is taken.
    """
    outputs, width = weight.shape
    parts = [Moments.zeros(width + (bias is not None), outputs) for _ in range(2)]
    stride = stride_for(tokens, max(ROWS, PER_FEATURE * width))
    for features, target, held in stream:
        features, target = (some(stride, values) for values in (features, target))
        residual = target - F.linear(features, weight, bias)
        if bias is not None:
            features = torch.cat([features, torch.ones_like(features[..., :1])], -1)
        parts[held].add(features.flatten(0, -2), residual.flatten(0, -2))
    for part in parts:
        part.gather()
    change = best_change(parts[0], parts[1] if parts[1].power > 0 else None)
    weight.add_(change[:width].T)
    if bias is not None:
        bias.add_(change[-1])
