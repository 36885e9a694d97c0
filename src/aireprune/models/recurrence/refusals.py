"""What has no recurrent mode, and inputs that do not fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.models.dropout import TimeDropout

DROPOUTS = (TimeDropout, nn.Dropout)
MODE_MATTERS = (nn.modules.batchnorm._BatchNorm, *DROPOUTS)
INTEGERS = (torch.int64, torch.int32, torch.uint8)


def check_model(model: Any) -> None:
    """Raise if a step of the model would need what is not there yet, or would not be repeatable."""
    if getattr(model.config, "bidirectional", False):
        raise AireError(
            "This model is bidirectional: every answer needs the sequence to its end, so it has no recurrent mode. Call "
            "the model on whole sequences."
        )
    for name, part in model.named_modules():
        if not part.training:
            continue
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            raise AireError(
                f"Batch norm {name} is in training mode, where it looks at all steps of a batch at once: call model.eval() "
                "first."
            )
        if isinstance(part, DROPOUTS) and part.p > 0:
            raise AireError(
                f"Dropout {name} is in training mode, so no step could be repeated: call model.eval() first."
            )


def fitting(x: Tensor, batch: int, inputs: int, dtype: torch.dtype, chunk: bool) -> Tensor:
    """The input of a step, (b, d_input) or tokens (b,), or of a chunk, which has time on its second axis: as (b, L, ..)."""
    tokens = x.dtype in INTEGERS
    time = ("L",) if chunk else ()
    expected = (batch, *time) if tokens else (batch, *time, inputs)
    if x.ndim != len(expected) or any(a != b for a, b in zip(x.shape, expected, strict=True) if b != "L"):
        what = f"({', '.join(map(str, expected))}{',' * (len(expected) == 1)})"
        raise AireError(
            f"The {'chunk' if chunk else 'step'} has the shape {tuple(x.shape)}; {batch} streams of "
            f"{'tokens' if tokens else 'numbers'} take {what}."
        )
    if chunk and x.shape[1] == 0:
        raise AireError("The chunk has no steps.")
    kind = torch.int64 if tokens else dtype
    x = x if x.dtype == kind else x.to(kind)
    return x if chunk else x[:, None]
