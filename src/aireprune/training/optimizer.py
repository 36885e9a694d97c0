"""AdamW with a learning rate of its own for the state space parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from aireprune.families.s5 import CLIP_EIGS_AT
from aireprune.training.recipes import Recipe

SSM_PARAMETERS = {
    "s5": ("Lambda_re", "Lambda_im", "log_step", "B", "norm.weight", "norm.bias"),
    "s4d": ("log_dt", "log_A_real", "A_imag", "D", "norms"),
    "lru": ("nu_log", "theta_log", "gamma_log", "B_re", "B_im", "norm.weight", "norm.bias"),
    "mamba": ("A_log", "D", "dt_proj.bias", "norms", "norm.weight", "norm.bias"),
    "mamba2": ("A_log", "D", "dt_bias", "norms", "norm.weight", "norm.bias"),
}


def parameter_groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """State space and norm parameters: their own rate, no weight decay. The rest: the main rate, with decay."""
    ssm: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    special = SSM_PARAMETERS[str(model.family)]
    for name, parameter in model.named_parameters():
        path = f".{name}."
        (ssm if any(f".{part}." in path for part in special) else rest).append(parameter)
    return [
        {"params": ssm, "peak": recipe.ssm_lr, "lr": recipe.ssm_lr, "weight_decay": 0.0},
        {"params": rest, "peak": recipe.lr, "lr": recipe.lr, "weight_decay": recipe.weight_decay},
    ]


def new_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW over the groups, at its first step; one kernel for all tensors, which are small here."""
    return torch.optim.AdamW(parameter_groups(model, recipe), betas=(0.9, 0.999), fused=True)


def set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Every group's learning rate as a share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


@torch.no_grad()
def hold_poles(model: nn.Module) -> None:
    """After a step: poles of S5, the only ones that are free to leave the left half-plane, stay in it."""
    for name, parameter in model.named_parameters():
        if name.rpartition(".")[2] == "Lambda_re":
            parameter.clamp_(max=CLIP_EIGS_AT)


def restore(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Moments and steps as they were saved; the groups' settings stay. ValueError if there are other moments."""
    settings = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, values in zip(optimizer.param_groups, settings, strict=True):
        group.update(values)
    for parameter, kept in optimizer.state.items():
        shapes = {name: tuple(kept[name].shape) for name in ("exp_avg", "exp_avg_sq", "step")}
        if shapes != {"exp_avg": parameter.shape, "exp_avg_sq": parameter.shape, "step": ()}:
            raise ValueError(f"moments of shapes {shapes} for a parameter of shape {tuple(parameter.shape)}")
        if not kept["step"] >= 1:
            raise ValueError(f"moments after {kept['step']} steps")
