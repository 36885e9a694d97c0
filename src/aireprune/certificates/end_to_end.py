"""From the errors of single layers to the output of our S5, LRU and S4D models: a bound, and what is really measured.

Signals are compared in l2 over time and features. z is the full model's signal, e the difference to the pruned one's:

    pre-norm    z' = z + phi(G nu(z))      e' <= (1 + L_phi |G~| L_nu) |e| + L_phi |G - G~| |nu(z)|
    post-norm   z' = nu(z + phi(G z))      e' <= L_nu ((1 + L_phi |G~|) |e| + L_phi |G - G~| |z|)

Constants, each valid for every pruned signal, however far it is from the full one:
  batch norm  (eval) is affine: max |scale| / sqrt(variance + eps)
  layer norm  has 1/sqrt(eps) everywhere and 2/s(z) from a z of standard deviation s(z): n(z) - n(z~) = (Pz - Pz~)/s +
              (Pz~/s~)(s~ - s)/s with |Pz~/s~| <= sqrt(h). The smaller one, times max |scale|
  GELU        1.13
  gates       f sigma(g) - f~ sigma(g~) = f (sigma(g) - sigma(g~)) + (f - f~) sigma(g~), |sigma'| <= 1/4, and |f| is
              measured on the full model
  head        mean pooling 1/sqrt(L), last step 1, then the spectral norm of the decoder
Norms |nu(z)|, ranges |f| and deviations s(z) are the extremes over the given inputs, so the bound holds for these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.calibration.checks import check_shape
from aireprune.certificates.audit import SEARCHED, feedthrough, with_feedthrough
from aireprune.errors import AireError
from aireprune.method.bounds import LayerCertificate, StackLayer, residual_stack_bound
from aireprune.method.hinf import hinf_norm
from aireprune.models.diagonal import DiagonalModel
from aireprune.models.heads import pooled
from aireprune.models.s4d import S4DModel
from aireprune.pruning.source import ModuleSource

GELU = 1.13


@dataclass(frozen=True)
class EndToEnd:
    """Bound and measurement of |logits - logits~|_2, the largest over the inputs."""

    examples: int
    bound: float | None  # None: more than the state space layers was changed
    distortion: float  # measured
    relative: float  # the same, relative to |logits|
    changed_answers: float  # share of examples whose largest logit is another one
    layer_norm: bool  # the bound holds layer norms to their measured deviations
    changed: tuple[str, ...] = ()  # tensors that differ and are not part of a state space layer

    @property
    def looseness(self) -> float | None:
        """How many times the bound is above the largest distortion that was measured."""
        return self.bound / self.distortion if self.bound is not None and self.distortion > 0 else None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "looseness": self.looseness, "changed": list(self.changed)}


@dataclass
class _Extremes:
    """What the full model's signals reach at one layer."""

    norm: float = 0.0  # |input of the layer|_2
    gate: float = 0.0  # |f| of the gate
    deviation: float = math.inf  # s(z) of the layer norm


@torch.inference_mode()
def end_to_end(
    original: ModuleSource, pruned: ModuleSource, layers: Sequence[LayerCertificate], batches: Iterable[Tensor]
) -> EndToEnd:
    """Compare two of our models on inputs, and bound the difference by the certificates of the layers."""
    full, small = original.module, pruned.module
    if not isinstance(full, DiagonalModel | S4DModel) or not isinstance(small, type(full)):
        raise AireError("The end-to-end bound is for aireprune's own S5, LRU and S4D models.")
    if full.config.retrieval:
        raise AireError("A retrieval model multiplies the features of two documents; it has no end-to-end bound here.")
    if full.training or small.training:
        raise AireError("Models are compared in evaluation mode; call .eval() on both.")
    extremes = [_Extremes() for _ in layers]
    distortion = relative = 0.0
    other, count, length = 0, 0, 1
    for x in batches:
        check_shape(full, x)
        logits, answer = _observe(full, x, extremes), small(x)
        error = (logits - answer).double().norm(dim=-1)
        distortion = max(distortion, float(error.max()))
        relative = max(relative, float((error / logits.double().norm(dim=-1)).max()))
        other += int((logits.argmax(-1) != answer.argmax(-1)).sum())
        count, length = count + len(x), x.shape[1]
    if not count:
        raise AireError("There are no inputs to compare the models on.")
    changed = _other_changes(original, pruned)
    bound = None if changed else _bound(full, pruned, layers, extremes, length)
    layer_norm = not (isinstance(full, DiagonalModel) and full.config.batchnorm)
    return EndToEnd(count, bound, distortion, relative, other / count, layer_norm, tuple(changed))


def _bound(
    full: DiagonalModel | S4DModel,
    pruned: ModuleSource,
    layers: Sequence[LayerCertificate],
    seen: list[_Extremes],
    length: int,
) -> float:
    prenorm, stack = full.config.prenorm, []
    for number, (found, extreme) in enumerate(zip(layers, seen, strict=True)):
        norm = _norm_constant(_norm(full, number), extreme.deviation)
        stack.append(
            StackLayer(
                error=math.nan if found.hinf is None else found.hinf * SEARCHED,
                gain=_gain(pruned, number),
                input_norm=extreme.norm,
                outer=_gate_constant(full, number, extreme.gate),
                inner=norm if prenorm else 1.0,
                behind=1.0 if prenorm else norm,
            )
        )
    last = residual_stack_bound(stack)[-1]
    feature = last / math.sqrt(length) if full.config.mode == "pool" else last
    assert isinstance(full.decoder, nn.Linear)
    return feature * _spectral_norm(full.decoder.weight)


def _gain(pruned: ModuleSource, number: int) -> float:
    """|G~| with the D u path."""
    system, d = pruned.system(number, "a certificate"), feedthrough(pruned, number)
    return hinf_norm(system if d is None else with_feedthrough(system, d))[0] * SEARCHED


def _observe(model: DiagonalModel | S4DModel, x: Tensor, extremes: list[_Extremes]) -> Tensor:
    """Logits of the full model; extremes of its signals are noted on the way."""
    z = model.encode(x)
    for number, seen in enumerate(extremes):
        norm = _norm(model, number)
        u = norm(z) if model.config.prenorm else z
        seen.norm = max(seen.norm, float(u.double().flatten(1).norm(dim=1).max()))
        y = _layer(model, number).seq(u) if isinstance(model, DiagonalModel) else _layer(model, number).ssm(u)
        seen.gate = max(seen.gate, float(_gated(model, number, y).abs().max()))
        after = z + _phi(model, number, y)
        if isinstance(norm, nn.LayerNorm):
            normed = z if model.config.prenorm else after
            variance = normed.double().var(-1, correction=0).min()
            seen.deviation = min(seen.deviation, math.sqrt(float(variance) + norm.eps))
        z = after if model.config.prenorm else norm(after)
    logits: Tensor = model.decoder(pooled(z, None, model.config.mode))
    return logits


def _norm(model: DiagonalModel | S4DModel, number: int) -> nn.Module:
    if isinstance(model, S4DModel):
        return model.norms[number]
    norm: nn.Module = _layer(model, number).norm
    return norm


def _layer(model: DiagonalModel | S4DModel, number: int) -> Any:
    return model.layers[number] if isinstance(model, DiagonalModel) else model.s4_layers[number]


def _phi(model: DiagonalModel | S4DModel, number: int, y: Tensor) -> Tensor:
    """Activation, gate and mixing."""
    if isinstance(model, DiagonalModel):
        out: Tensor = _layer(model, number).gate(y)
        return out
    return F.glu(F.linear(F.gelu(y), *_mixing(model, number)), dim=-1)


def _gated(model: DiagonalModel | S4DModel, number: int, y: Tensor) -> Tensor:
    """f of the gate f sigma(g)."""
    if isinstance(model, S4DModel):
        return F.linear(F.gelu(y), *_mixing(model, number)).chunk(2, dim=-1)[0]
    block, g = _layer(model, number), F.gelu(y, approximate="tanh")
    if block.activation == "full_glu":
        out: Tensor = block.out1(g)
        return out
    return y if block.activation == "half_glu2" else g


def _gate_constant(model: DiagonalModel | S4DModel, number: int, reach: float) -> float:
    """L_phi, given |f| <= reach on the full model."""
    if isinstance(model, S4DModel):
        value, gate = _mixing(model, number)[0].chunk(2)
        return GELU * (_spectral_norm(value) + reach / 4 * _spectral_norm(gate))
    block = _layer(model, number)
    if block.activation == "gelu":
        return GELU
    gate_part = reach / 4 * _spectral_norm(block.out2.weight) * GELU
    if block.activation == "full_glu":
        return gate_part + _spectral_norm(block.out1.weight) * GELU
    return gate_part + (1.0 if block.activation == "half_glu2" else GELU)


def _norm_constant(norm: nn.Module, deviation: float) -> float:
    if isinstance(norm, nn.LayerNorm):
        return float(norm.weight.abs().max()) * min(1 / math.sqrt(norm.eps), 2 / deviation)
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_var is not None
    return float((norm.weight.abs() / (norm.running_var + norm.eps).sqrt()).max())


def _mixing(model: S4DModel, number: int) -> tuple[Tensor, Tensor | None]:
    mix = _layer(model, number).output_linear.get_submodule("0")
    assert isinstance(mix, nn.Conv1d)
    return mix.weight[:, :, 0], mix.bias


def _spectral_norm(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.double(), 2))


def _other_changes(original: ModuleSource, pruned: ModuleSource) -> list[str]:
    """Tensors that differ between the models and do not belong to a state space layer."""
    layers = {name for layer in original.layers for name in layer.arrays.values()}
    after = pruned.module.state_dict()
    return [
        name
        for name, tensor in original.module.state_dict().items()
        if name not in layers and name.rpartition(".")[2] != "D" and not torch.equal(tensor, after[name])
    ]
