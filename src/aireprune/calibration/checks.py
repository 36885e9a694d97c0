"""Do calibration inputs fit the model, and did the calibration help?

What a model was trained on leaves traces: the width of its first layer, the number of tokens it knows, and the running
statistics of its batch norms. Inputs that contradict these are refused or remarked on before anything is fitted to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.calibration.calls import Call, answer
from aireprune.calibration.comparison import Fit, measure_fit
from aireprune.calibration.inputs import HELD_OUT, ArrayInputs, Inputs
from aireprune.calibration.norms import batch_norms, by_channel, statistics
from aireprune.calibration.readout import Progress, calibrate
from aireprune.calibration.running import running
from aireprune.calibration.subject import Opened, Subject
from aireprune.errors import AireError

DID_NOT_HELP = "the fitted readouts did not help on held-out inputs and were not used."
FEW = 2 * HELD_OUT  # sequences, below which little can be held out
ODD, WRONG = 3.0, 25.0  # times more or less variance than the model's statistics: remarked on, refused


@torch.no_grad()
def check_inputs(model: nn.Module, inputs: Inputs) -> list[str]:
    """Raise if the model cannot have been made for such inputs; returns what is worth a remark."""
    if isinstance(inputs, ArrayInputs):
        check_shape(model, inputs.values)
        if np.ptp(inputs.values) == 0:
            raise AireError("The calibration inputs are all the same number; they say nothing about the model.")
    remarks = []
    if len(inputs) < FEW:
        remarks.append(
            f"only {len(inputs)} calibration sequences were given, so little of them can be held out to judge the fit; "
            "give some dozens."
        )
    seen: list[tuple[Any, Call]] = []
    norms = batch_norms(model)
    hooks = [
        norm.register_forward_pre_hook(lambda norm, args: seen.append((norm, Call(args))))
        for norm in list(norms.values())[:1]
    ]
    try:
        with running(model):
            output = _asked(model, inputs[0])
    finally:
        for hook in hooks:
            hook.remove()
    if not torch.isfinite(output).all():
        raise AireError(
            "The full model's outputs are not finite on the calibration inputs: they are in another range than "
            "those it was trained on."
        )
    return remarks + (_statistics(*seen[0]) if seen else [])


def _asked(model: nn.Module, call: Call) -> Tensor:
    try:
        return answer(call.on(model))
    except AireError:
        raise
    except Exception as problem:
        first = (str(problem).strip() or type(problem).__name__).splitlines()[0].rstrip(".")
        raise AireError(
            f"A {type(model).__name__} cannot take the calibration inputs ({', '.join(_shown(call))}): {first[:200]}."
        ) from problem


def _shown(call: Call) -> list[str]:
    def one(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
        return type(value).__name__

    return [*map(one, call.args), *(f"{name}: {one(value)}" for name, value in call.kwargs.items())]


def check_shape(model: nn.Module, values: np.ndarray | Tensor) -> None:
    """Raise unless the values are (n, L, width) of the model's width, or tokens that it knows."""
    config = getattr(model, "config", None)
    width = getattr(config, "d_input", None)
    tokens = width if width is not None else getattr(config, "vocab_size", None)
    if values.ndim == 3:
        if width is not None and values.shape[-1] != width:
            swapped = " (channels come last: (n, L, d))" if values.shape[1] == width else ""
            raise AireError(
                f"The inputs have {values.shape[-1]} values per step, but the model takes {width}{swapped}."
            )
        return
    low, high = int(values.min()), int(values.max())
    if tokens is not None and (low < 0 or high >= tokens):
        raise AireError(
            f"The inputs hold token {low if low < 0 else high}, but the model knows only {tokens}. Numbers that are not "
            "tokens are given as floats."
        )


def _statistics(norm: Any, call: Call) -> list[str]:
    """Compare what the first batch norm reads with the statistics it keeps."""
    seen, (mean, kept) = by_channel(norm, call), statistics(norm)
    variance = kept + norm.eps
    spread = float((seen.var(0) / variance).median())
    shift = float(((seen.mean(0) - mean).abs() / variance.sqrt()).median())
    if 1 / ODD <= spread <= ODD and shift <= ODD**0.5:
        return []
    found = f"{spread:.2g} times the variance and a mean {shift:.2g} deviations off"
    if not 1 / WRONG <= spread <= WRONG or shift > WRONG**0.5:
        raise AireError(
            f"The calibration inputs are in another range than those the model was trained on: at its first batch norm "
            f"they have {found}, compared with its own statistics. Normalise them as in training."
        )
    return [
        f"the calibration inputs may be in another range than in training: at the first batch norm they have {found}."
    ]


def fit_if_it_helps(
    full: Subject, reduced: Opened, inputs: Inputs, rows: bool = False, progress: Progress | None = None
) -> tuple[nn.Module, Fit]:
    """The reduced model with calibrated readouts, or as it is where these do not help on held-out inputs.

    rows, progress: as in `calibrate`.
    """
    fitted = calibrate(full, reduced, inputs, rows=rows, progress=progress)
    fit = measure_fit(full, reduced.module, fitted, inputs)
    return (fitted if fit.helped else reduced.module), fit
