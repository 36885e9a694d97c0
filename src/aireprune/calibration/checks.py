"""Do calibration inputs fit the model, and did the calibration help?

What a model was trained on leaves traces: the width of its first layer, the number of tokens it knows, and the running
statistics of its batch norms. Inputs that contradict these are refused or remarked on before anything is fitted to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.calibration.inputs import HELD_OUT, Inputs
from aireprune.calibration.readout import calibrate
from aireprune.calibration.stack import open_stack
from aireprune.errors import AireError
from aireprune.models.evaluation import evaluation_mode

DID_NOT_HELP = "the fitted readouts did not help on held-out inputs and were not used."
FEW = 2 * HELD_OUT  # sequences, below which little can be held out
ODD, WRONG = 3.0, 25.0  # times more or less variance than the model's statistics: remarked on, refused


@dataclass(frozen=True)
class Fit:
    """Relative distance of the outputs to the full model's on inputs that were held out, before and after."""

    before: float
    after: float

    @property
    def helped(self) -> bool:
        return self.after < self.before


def check_inputs(model: nn.Module, inputs: Inputs) -> list[str]:
    """Raise if one of our models cannot have been made for such inputs; returns what is worth a remark."""
    check_shape(model, inputs.values)
    if np.ptp(inputs.values) == 0:
        raise AireError("The calibration inputs are all the same number; they say nothing about the model.")
    remarks = []
    if len(inputs) < FEW:
        remarks.append(
            f"only {len(inputs)} calibration sequences were given, so little of them can be held out to judge the fit; "
            "give some dozens."
        )
    with evaluation_mode(model), torch.no_grad():
        first = inputs[0]
        if not torch.isfinite(model(first)).all():
            raise AireError(
                "The full model's outputs are not finite on the calibration inputs: they are in another range than "
                "those it was trained on."
            )
        return remarks + _statistics(model, first)


def check_shape(model: nn.Module, values: np.ndarray | Tensor) -> None:
    """Raise unless the values are (n, L, width) of the model's width, or tokens that it knows."""
    config = getattr(model, "config", None)
    width = getattr(config, "d_input", None)
    if width is None:
        return
    if values.ndim == 3:
        if values.shape[-1] != width:
            swapped = " (channels come last: (n, L, d))" if values.shape[1] == width else ""
            raise AireError(
                f"The inputs have {values.shape[-1]} values per step, but the model takes {width}{swapped}."
            )
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= width:
        raise AireError(
            f"The inputs hold token {low if low < 0 else high}, but the model knows only {width}. Numbers that are not "
            "tokens are given as floats."
        )


def _statistics(model: nn.Module, x: Tensor) -> list[str]:
    """Compare what the first batch norm reads with the statistics it keeps, where there is one."""
    stack = open_stack(model)
    norm = stack.batch_norm(0)
    if norm is None or norm.running_mean is None or norm.running_var is None:
        return []
    z = stack.encode(x)
    seen = (z if stack.prenorm else stack.before_norm(0, z, stack.put_out(0, stack.read(0, z)))).flatten(0, 1)
    variance = norm.running_var + norm.eps
    spread = float((seen.var(0) / variance).median())
    shift = float(((seen.mean(0) - norm.running_mean).abs() / variance.sqrt()).median())
    if 1 / ODD <= spread <= ODD and shift <= ODD**0.5:
        return []
    found = f"{spread:.2g} times the variance and a mean {shift:.2g} deviations off"
    if not 1 / WRONG <= spread <= WRONG or shift > WRONG**0.5:
        raise AireError(
            f"The calibration inputs are in another range than those the model was trained on: behind its encoder they "
            f"have {found}, compared with its own statistics. Normalise them as in training."
        )
    return [f"the calibration inputs may be in another range than in training: behind the encoder they have {found}."]


def fit_if_it_helps(full: nn.Module, reduced: nn.Module, inputs: Inputs) -> tuple[nn.Module, Fit]:
    """The reduced model with calibrated readouts, or as it is where these do not help on held-out inputs."""
    fitted = calibrate(full, reduced, inputs)
    fit = measure_fit(full, reduced, fitted, inputs)
    return (fitted if fit.helped else reduced), fit


def measure_fit(full: nn.Module, before: nn.Module, after: nn.Module, inputs: Inputs) -> Fit:
    """How far two reduced models are from the full one on the held-out inputs (all, if there are too few to hold out)."""
    numbers = [number for number in range(inputs.batches) if inputs.held_out(number)] or range(inputs.batches)
    sums = np.zeros(3)
    with evaluation_mode(full, before, after), torch.no_grad():
        for number in numbers:
            x = inputs[number]
            wanted = full(x).double()
            errors = [(wanted - model(x).double()).square().sum() for model in (before, after)]
            sums += np.array([float(wanted.square().sum()), *map(float, errors)])
    scale = max(sums[0], np.finfo(float).tiny)
    return Fit(float(np.sqrt(sums[1] / scale)), float(np.sqrt(sums[2] / scale)))
