"""An S5 layer, or a whole S5 block, without gradients as one torch operator on the CPU.

Shapes: b batch, L time, h features, P modes. The operator takes parameters as the modules hold them, discretises them
and folds the norm into them on every call, so that no change of a weight can go unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aireprune.kernels.inputs import dense, expect
from aireprune.kernels.numba.s5_codes import ACTIVATIONS, METHODS, NORMS
from aireprune.kernels.operators import LIBRARY
from aireprune.kernels.scan import fresh


def s5_block(
    z: Tensor,
    poles: tuple[Tensor, Tensor, Tensor],
    step_rescale: float,
    clip_at: float,
    method: str,
    b: Tensor,
    c: Sequence[Tensor],
    c_scale: float,
    d: Tensor,
    activation: str = "",
    gates: Sequence[tuple[Tensor, Tensor]] = (),
    norm: str = "",
    norm_weights: Sequence[Tensor] = (),
    eps: float = 0.0,
    reuse: bool = False,
) -> Tensor:
    """Norm, layer, activation, gate and residual; without an activation, the layer alone. z (b, L, h) -> (b, L, h).

    poles: real parts, imaginary parts and logarithms of steps, (P,) each, continuous; steps are multiplied by step_rescale
    and real parts cut off at clip_at. With the method discrete they are log|lam|, arg(lam) and log(factor) instead. b
    (P, h, 2); c: (h, P, 2) for each direction; d (h,). y = c_scale Re(C x) + d u with x_t = lam x_{t-1} + factor B u_t.
    gates: weight (h, h) and bias (h,) of out1 and out2, those that the activation has. norm: its place and kind;
    norm_weights: weight and bias and, for a batch norm, its mean and variance, (h,) each. Half precision is computed in
    single precision. reuse: the result may take the place of z; touching fresh memory costs as much as a third of the
    arithmetic.
    """
    p, h = b.shape[:2]
    expect("s5_block", z=(z, (*z.shape[:2], h)), b=(b, (p, h, 2)), d=(d, (h,)))
    for name, tensors, shape in (
        ("poles", poles, (p,)),
        ("c", c, (h, p, 2)),
        ("gate", [weight for weight, _ in gates], (h, h)),
        ("bias", [bias for _, bias in gates], (h,)),
        ("norm", norm_weights, (h,)),
    ):
        for tensor in tensors:
            if tensor.shape != shape:  # a call that finds nothing still costs a microsecond
                expect("s5_block", **{name: (tensor, shape)})
    working = torch.float64 if z.dtype == torch.float64 else torch.float32
    arguments = (
        _as(working, z),
        *(_as(working, t) for t in poles),
        step_rescale,
        clip_at,
        METHODS.index(method),
        _as(working, b),
        [_as(working, t) for t in c],
        c_scale,
        _as(working, d),
        ACTIVATIONS.index(activation),
        [_as(working, weight) for weight, _ in gates],
        [_as(working, bias) for _, bias in gates],
        NORMS.index(norm),
        [_as(working, t) for t in norm_weights],
        eps,
    )
    if reuse and z.dtype == working and z.is_contiguous():
        torch.ops.aireprune.s5_block_(*arguments)
        if not z.is_inference():
            torch.autograd.graph.increment_version(z)  # a graph that has saved z must notice
        return z
    return _as(z.dtype, torch.ops.aireprune.s5_block(*arguments))


def _as(dtype: torch.dtype, t: Tensor) -> Tensor:
    return t if t.dtype == dtype else t.to(dtype)  # a call that does nothing still costs microseconds


def _run(z: Tensor, out: Tensor, pole_re: Tensor, pole_im: Tensor, log_step: Tensor, step_rescale: float, clip_at: float,
         method: int, b: Tensor, c: Sequence[Tensor], c_scale: float, d: Tensor, activation: int, w: Sequence[Tensor],
         w_bias: Sequence[Tensor], norm: int, norm_weights: Sequence[Tensor], eps: float) -> None:  # fmt: skip
    if not z.numel():
        return
    from aireprune.kernels.numba import s5 as numba_s5
    from aireprune.kernels.numba.compile import threads

    numba_s5.forward(
        dense(z), (dense(pole_re), dense(pole_im), dense(log_step)), step_rescale, clip_at, method, dense(b),
        [dense(t) for t in c], c_scale, dense(d), activation, [dense(t) for t in w], [dense(t) for t in w_bias], norm,
        [dense(t) for t in norm_weights], eps, threads(), out.detach().numpy(),
    )  # fmt: skip


_REST = (
    "Tensor pole_re, Tensor pole_im, Tensor log_step, float step_rescale, float clip_at, int method, Tensor b, Tensor[] c, "
    "float c_scale, Tensor d, int activation, Tensor[] w, Tensor[] w_bias, int norm, Tensor[] norm_weights, float eps"
)
LIBRARY.define(f"s5_block(Tensor z, {_REST}) -> Tensor")
LIBRARY.define(f"s5_block_(Tensor(a!) z, {_REST}) -> ()")


def _to_fresh_memory(z: Tensor, *rest: Any) -> Tensor:
    out = fresh(z, *z.shape)
    _run(z, out, *rest)
    return out


def _in_place(z: Tensor, *rest: Any) -> None:
    """A chunk of z is read for the last time by the step that writes it."""
    if not z.is_contiguous():
        raise ValueError("s5_block_ works in place and needs a contiguous z")
    _run(z, z, *rest)


LIBRARY.impl("s5_block", _to_fresh_memory, "CPU")
LIBRARY.impl("s5_block_", _in_place, "CPU")


def _like(z: Tensor, *rest: Any) -> Tensor:
    return torch.empty(z.shape, dtype=z.dtype, device=z.device)


torch.library.register_fake("aireprune::s5_block", _like)
torch.library.register_fake("aireprune::s5_block_", lambda z, *rest: None)
