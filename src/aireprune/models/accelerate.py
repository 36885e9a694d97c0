"""The fast scans for transformers models on a CPU: `accelerate(model)`.

Every Mamba mixer of the model gets a forward of its own, on that instance only: the projections stay torch matrix
products, convolution + SiLU and the whole selective scan (step, recurrence, readout, skip, gate) are one numba kernel
each, all in the (batch, time, channel) order of the projections, so nothing is transposed. Cache objects, masks and
outputs are transformers' own. What the kernels do not serve (another device or activation, an assisted-decoding
cache) takes the stock forward.

One difference to the stock Mamba-1 forward is deliberate: several tokens after a cached prefix continue from the
cached state, where transformers starts again from zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.families.mamba2 import PROJECTIONS
from aireprune.kernels.conv import causal_conv
from aireprune.kernels.selective import selective_scan, selective_step
from aireprune.kernels.ssd import ssd_scan, ssd_step
from aireprune.models.projection import gates, is_projected

MAMBA = ("MambaMixer", "FalconMambaMixer", "JambaMambaMixer")
MAMBA2 = (
    "Mamba2Mixer",
    "BambaMixer",
    "Zamba2MambaMixer",
    "NemotronHMamba2Mixer",
    "GraniteMoeHybridMambaLayer",
    "FalconH1Mixer",
)


def accelerate(model: nn.Module) -> nn.Module:
    """Give every Mamba and Mamba-2 mixer of a transformers model the fast scan, in place; returns the model.

    Calling it again changes nothing. Pruning (before or after) and training keep working.
    """
    if not can_accelerate(model):
        raise AireError(
            f"{type(model).__name__} has no layer that can be accelerated. Known are transformers' "
            f"{', '.join(MAMBA + MAMBA2)}; aireprune's own models are fast already."
        )
    for mixer in _mixers(model):
        _speed_up(mixer)
    return model


def can_accelerate(model: nn.Module) -> bool:
    """Whether any of its layers is a mixer that `accelerate` knows."""
    return bool(_mixers(model))


def is_head_mixer(module: nn.Module) -> bool:
    """Whether this is one of transformers' Mamba-2 mixers."""
    return _forward_for(module) is _mamba2_forward


@contextmanager
def fast_scans(model: nn.Module) -> Iterator[None]:
    """The fast scans for a while, in the mixers that have the stock forward; then they have it again."""
    stock = [mixer for mixer in _mixers(model) if "forward" not in vars(mixer)]
    try:
        for mixer in stock:
            _speed_up(mixer)
        yield
    finally:
        for mixer in stock:
            vars(mixer).pop("forward", None)


def _mixers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if _forward_for(module) is not None]


def _speed_up(mixer: nn.Module) -> None:
    mixer.forward = partial(_forward_for(mixer), mixer)  # unlike a bound method, this can be pickled


def _forward_for(module: nn.Module) -> Any:
    if type(module).__module__.split(".")[0] != "transformers":
        return None
    name = type(module).__name__
    return _mamba_forward if name in MAMBA else _mamba2_forward if name in MAMBA2 else None


def _needs_stock_forward(mixer: Any, x: Tensor, cache: Any) -> bool:
    """Whether the kernels cannot serve this call."""
    recording = cache is not None and cache.is_recording_past(mixer.layer_idx)
    device = x.device.type != "cpu" and not is_projected(mixer)
    return device or mixer.activation not in ("silu", "swish") or recording


def _cached(mixer: Any, cache: Any) -> tuple[Tensor | None, Tensor | None]:
    if cache is None:
        return None, None
    return cache.get_conv_state(mixer.layer_idx, state_idx=0), cache.get_recurrent_state(mixer.layer_idx, state_idx=0)


def _masked(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Padding tokens are zeroed, as in the stock forward."""
    return x if attention_mask is None else (x * attention_mask[:, :, None]).to(x.dtype)


def _convolve(mixer: Any, u: Tensor, cache: Any, window: Tensor | None) -> Tensor:
    """Convolution and SiLU of u (b, L, D), with the cached inputs before it; brings the cache up to date.

    window (b, D, k): the last k inputs of an earlier call, if there was one.
    """
    weight, bias = mixer.conv1d.weight, mixer.conv1d.bias
    length, k = u.shape[1], weight.shape[-1]
    if cache is None:
        return causal_conv(u, weight, bias)
    if window is not None and length == 1:
        inputs = torch.cat([window[:, :, 1:], u.transpose(1, 2)], -1)  # (b, D, k)
        window.copy_(inputs)
        y = (inputs * weight[:, 0]).sum(-1)
        return F.silu(y if bias is None else y + bias)[:, None].to(u.dtype)
    seen = cache.update_conv_state(u.transpose(1, 2), mixer.layer_idx, conv_kernel_size=mixer.conv_kernel_size)
    before = seen[:, :, : seen.shape[-1] - length][:, :, -(k - 1) :] if k > 1 else seen[:, :, :0]
    before = F.pad(before, (k - 1 - before.shape[-1], 0))
    return causal_conv(u, weight, bias, before.transpose(1, 2).to(u.dtype))


def _mamba_forward(
    self: Any, hidden_states: Tensor, cache_params: Any = None, attention_mask: Tensor | None = None, **kwargs: Any
) -> Any:
    """MambaMixer, FalconMambaMixer and JambaMambaMixer; the latter two normalise dt, B and C."""
    if _needs_stock_forward(self, hidden_states, cache_params):
        return type(self).forward(self, hidden_states, cache_params, attention_mask, **kwargs)
    window, state = _cached(self, cache_params)
    u, gate = self.in_proj(_masked(hidden_states, attention_mask)).chunk(2, dim=-1)
    x = _masked(_convolve(self, u, cache_params, window), attention_mask)
    sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
    dt, b, c = self.x_proj(x).split(sizes, dim=-1)
    if hasattr(self, "b_layernorm"):
        dt, b, c = self.dt_layernorm(dt), self.b_layernorm(b), self.c_layernorm(c)
    dt, A, bias = F.linear(dt, self.dt_proj.weight), -torch.exp(self.A_log.float()), self.dt_proj.bias
    if state is not None and x.shape[1] == 1 and not torch.is_grad_enabled():
        y = selective_step(state, x[:, 0], dt[:, 0], A, b[:, 0], c[:, 0], self.D, bias, gate[:, 0])[:, None]
    else:
        y, final = selective_scan(x, dt, A, b, c, self.D, bias, gate, state, reuse_dt=True)
        if cache_params is not None:
            cache_params.update_recurrent_state(final.to(x.dtype), self.layer_idx)
    return self.out_proj(y.to(hidden_states.dtype))


def _mamba2_forward(
    self: Any, hidden_states: Tensor, cache_params: Any = None, attention_mask: Tensor | None = None, **kwargs: Any
) -> Any:
    """The Mamba-2 mixers. FalconH1 scales its projection and may do without the gated norm."""
    packed = kwargs.get("seq_idx") is not None or kwargs.get("cu_seqlens") is not None
    if packed or _needs_stock_forward(self, hidden_states, cache_params):
        if is_projected(self):
            raise AireError(
                "A projected Mamba-2 layer runs with SiLU, without packed sequences and without assisted decoding."
            )
        return type(self).forward(self, hidden_states, cache_params, attention_mask, **kwargs)
    window, state = _cached(self, cache_params)
    batch, length, _ = hidden_states.shape
    projected = self.in_proj(_masked(hidden_states, attention_mask) * getattr(self, "ssm_in_multiplier", 1.0))
    if hasattr(self, "mup_vector"):
        projected = projected * self.mup_vector
    gate, u, dt = projected.split([self.intermediate_size, self.conv_dim, self.num_heads], dim=-1)
    xbc = _masked(_convolve(self, u, cache_params, window), attention_mask)
    width = (self.conv_dim - self.intermediate_size) // 2
    x, b, c = torch.split(xbc, [self.intermediate_size, width, width], dim=-1)
    groups = (batch, length, self.n_groups, width // self.n_groups)
    x, A = x.reshape(batch, length, self.num_heads, self.head_dim), -torch.exp(self.A_log.float())
    b, c = (gates(v.reshape(groups), getattr(self, name, None)) for v, name in zip((b, c), PROJECTIONS, strict=True))
    if state is not None and length == 1 and not torch.is_grad_enabled():
        # like the stock single step, this one does not clip the step size
        y = ssd_step(state, x[:, 0], dt[:, 0], A, b[:, 0], c[:, 0], self.D, self.dt_bias)
    else:
        limits = (0.0, float("inf")) if state is not None and length == 1 else self.time_step_limit
        y, final = ssd_scan(x, dt, A, b, c, self.D, self.dt_bias, limits, state)
        if cache_params is not None:
            cache_params.update_recurrent_state(final, layer_idx=self.layer_idx)
    y = y.reshape(batch, length, -1)
    y = self.norm(y, gate) if getattr(self, "mamba_rms_norm", True) else y * F.silu(gate)
    return self.out_proj(y.to(hidden_states.dtype))
