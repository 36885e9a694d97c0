"""What of a model is learnt, how fast, and what must stay as it is.

Poles, steps and input rows of state space layers move an output by much, so they are learnt at a rate of their own.
States that are silent stay silent: rows of channels (S4D) are filled up with them, and they are not counted. Poles that
are free to leave the unit circle, as those of S5 are, are held back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.families import Layer
from aireprune.families.s5 import CLIP_EIGS_AT

DYNAMICS = {  # roles of poles, steps and input rows
    "s5": {"Lambda", "Lambda_re", "Lambda_im", "log_step", "B"},
    "s4d": {"log_A_real", "A_real", "A_imag", "log_dt", "inv_dt", "B"},
    "lru": {"nu_log", "theta_log", "gamma_log", "B", "B_re", "B_im"},
    "mamba": {"A_log", "A_b_log", "dt_proj.bias", "dt_proj_b.bias"},
    "mamba2": {"A_log", "dt_bias"},
}
READOUTS = frozenset({"C", "C1", "C2", "C_re", "C_im"})
SLOWER = 1 / 3
REAL_PARTS = frozenset({"Lambda", "Lambda_re"})


class Learnt:
    """The parameters of a module that is about to be trained, in place."""

    def __init__(self, module: nn.Module, layers: Sequence[Layer[Any]]):
        tensors = module.state_dict(keep_vars=True)
        roles = [(role, tensors[name]) for layer in layers for role, name in layer.arrays.items()]
        slow = {
            id(tensors[name])
            for layer in layers
            for role, name in layer.arrays.items()
            if role in DYNAMICS[layer.family]
        }
        self.parameters = [p for p in module.parameters() if p.is_floating_point() or p.is_complex()]
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        self.dynamics = [p for p in self.parameters if id(p) in slow]
        self.rest = [p for p in self.parameters if id(p) not in slow]
        for role, tensor in roles:
            if role in READOUTS and tensor.requires_grad:
                _keep_silent(tensor)
        self._ceilings = [(_real(tensor), _ceiling(tensor)) for role, tensor in roles if role in REAL_PARTS]

    def optimizer(self) -> torch.optim.AdamW:
        """AdamW without decay, whose groups have a pace: how fast they learn, compared with the others."""
        groups = [{"params": self.dynamics, "pace": SLOWER}, {"params": self.rest, "pace": 1.0}]
        real = all(p.is_floating_point() for p in self.parameters)
        return torch.optim.AdamW([group for group in groups if group["params"]], weight_decay=0.0, fused=real)

    @torch.no_grad()
    def hold(self) -> None:
        """After a step: poles of S5 stay in the left half-plane."""
        for values, ceiling in self._ceilings:
            torch.minimum(values, ceiling, out=values)


def _keep_silent(readout: Tensor) -> None:
    """Entries of a readout that are 0 get no gradient."""
    silent = readout.detach() == 0
    if silent.any():
        readout.register_hook(lambda gradient: gradient.masked_fill(silent, 0))


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor.detach())[..., 0] if tensor.is_complex() else tensor.detach()


def _ceiling(tensor: Tensor) -> Tensor:
    """Poles that are unstable to begin with may stay, and get no worse."""
    return _real(tensor).clamp(min=CLIP_EIGS_AT).clone()
