"""A head for another final norm: an RMS norm and a matrix that give the logits of a model, as far as they can.

A model whose logits come from a layer norm and a head with a bias is what transformers' MambaForCausalLM is not. Where z
is what the norm reads, and z/rms(z) is that under an RMS norm, the matrix W that minimises

    Σ_t ‖logits_t - mean(logits_t) - W z_t/rms(z_t)‖²

over the tokens t of unlabelled inputs stands in for both. The mean over the tokens to choose from changes no probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.calibration.checks import check_inputs
from aireprune.calibration.inputs import Inputs, held_out
from aireprune.errors import AireError
from aireprune.models.evaluation import evaluation_mode
from aireprune.models.mamba import MambaModel
from aireprune.models.selective import RMS_EPSILON

RIDGE = 1e-6  # of the mean variance of a feature


@dataclass(frozen=True)
class FittedHead:
    """weight (tokens, d_model), and what it changes on inputs that were held out.

    divergence: Kullback-Leibler divergence from the model's own distribution, mean over tokens, in bits. changed: share
    of the tokens whose most likely successor is another one.
    """

    weight: np.ndarray
    divergence: float
    changed: float

    def __str__(self) -> str:
        return (
            "its final norm and head were replaced by an RMS norm and a head without a bias, fitted to the logits; on "
            f"inputs that were held out its distribution moves by {self.divergence:.4f} bits per token, and "
            f"{100 * self.changed:.1f} % of the most likely tokens change."
        )


@torch.inference_mode()
def fit_head(model: MambaModel, inputs: Inputs) -> FittedHead:
    """Fit on all batches but those that are held out, and compare there."""
    check_inputs(model, inputs)
    if not any(map(held_out, range(inputs.batches))):
        raise AireError(f"Fitting a head needs at least 4 sequences, some of which are held out; got {len(inputs)}.")
    with evaluation_mode(model):
        weight = _solve(model, inputs)
        divergence, changed = _compare(model, inputs, weight)
    return FittedHead(weight.numpy(), divergence, changed)


def _solve(model: MambaModel, inputs: Inputs) -> Tensor:
    d, tokens = model.config.d_model, model.config.d_output
    gram, target = torch.zeros(d, d, dtype=torch.float64), torch.zeros(d, tokens, dtype=torch.float64)
    for number in range(inputs.batches):
        if not held_out(number):
            features, logits = (values.flatten(0, 1).double() for values in _both(model, inputs[number].first))
            gram += features.T @ features
            target += features.T @ (logits - logits.mean(-1, keepdim=True))
    gram += RIDGE * gram.diagonal().mean() * torch.eye(d)
    return torch.linalg.solve(gram, target).T.float()


def _compare(model: MambaModel, inputs: Inputs, weight: Tensor) -> tuple[float, float]:
    divergence, changed, count = 0.0, 0, 0
    for number in range(inputs.batches):
        if held_out(number):
            batch = inputs[number].first
            features, logits = _both(model, batch)
            new = features @ weight.T
            expected, found = logits.log_softmax(-1).double(), new.log_softmax(-1).double()
            divergence += float(F.kl_div(found, expected, reduction="sum", log_target=True)) / np.log(2)
            changed += int((new.argmax(-1) != logits.argmax(-1)).sum())
            count += batch.numel()
    return divergence / count, changed / count


def _both(model: MambaModel, batch: Tensor) -> tuple[Tensor, Tensor]:
    """What an RMS norm without weights makes of the stack (b, L, d_model), and the model's logits (b, L, tokens)."""
    z = model.features(batch)
    logits: Tensor = model.classifier(model.norm(z))
    return F.rms_norm(z, z.shape[-1:], eps=RMS_EPSILON), logits
