"""An S5 or LRU block in training on the CPU: batch norm, layer, gate, dropout and residual with one hand-written backward
pass.

Shapes: b batch, L time, h features, P modes, d directions, G numbers that the gate matrices give. The batch norm is never
applied by itself: it is folded into B and D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aireprune.kernels.buffers import arrays, buffers
from aireprune.kernels.inputs import expect
from aireprune.kernels.scan import fresh


@dataclass(frozen=True, kw_only=True)
class Given:
    """What takes no gradient. eps: of the norm. first, second (b, h): factors of the dropouts after GELU and gate.

    frozen: mean and variance (h,) are given; otherwise the forward pass writes those of the batch there, biased.
    """

    eps: float
    first: Tensor
    second: Tensor
    mean: Tensor
    variance: Tensor
    frozen: bool = False


def s5_training_block(
    z: Tensor,
    given: Given,
    norm: tuple[Tensor, Tensor],
    system: Sequence[Tensor],
    d: Tensor,
    gate: tuple[Tensor, Tensor],
) -> Tensor:
    """z (b, L, h) -> (b, L, h). norm: weight and bias (h,). system: lam_re, lam_im (P,), [Re B; Im B] (2P, h), and the
    readouts (h, 2P d) that multiply [Re x | Im x] of every direction. gate: weight (G, h) and bias (G,) of out2 (half_glu2,
    G = h), or of out1 and out2 (full_glu, G = 2h)."""
    h, p, gates = z.shape[2], len(system[0]), len(gate[0])
    expect(
        "s5_training_block",
        z=(z, (*z.shape[:2], h)),
        b=(system[2], (2 * p, h)),
        d=(d, (h,)),
        gate=(gate[0], (gates if gates in (h, 2 * h) else h, h)),
    )
    result: Tensor = _Block.apply(z, given, *norm, *system, d, *gate)
    return result


class _Block(torch.autograd.Function):
    """`s5_training_block`; saved are z, B u, the states that enter chunks, y and the gates."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, given: Given, *weights: Tensor) -> Tensor:
        from aireprune.kernels.numba import s5_training as numba_block
        from aireprune.kernels.numba.compile import threads
        from aireprune.kernels.numba.gemm import padded

        norm_weight, norm_bias, lam_re, lam_im, b, c, d, gate, bias = (w.detach().contiguous() for w in weights)
        z = z.detach().contiguous()
        (batch, length, h), width, gates = z.shape, len(b), len(gate)
        workers = min(threads(), batch)
        if not given.frozen:
            _batch_moments(z, given, workers)
        scale = norm_weight / torch.sqrt(given.variance + given.eps)
        shift = norm_bias - given.mean * scale
        y, out, v = fresh(z, *z.shape), fresh(z, *z.shape), fresh(z, batch, length, gates)
        bu = fresh(z, batch, length, int(padded(width, z.element_size())))
        enters = z.new_empty(batch, -(-length // numba_block.CHUNK), c.shape[1])
        room = numba_block.forward_room(length, h, width, gates, c.shape[1] // width, z.element_size())
        numba_block.forward(
            z.numpy(),
            arrays(lam_re, lam_im),
            arrays(b * scale, b @ shift),
            c.numpy(),
            arrays(d * scale, d * shift),
            arrays(gate, bias),
            arrays(given.first, given.second),
            gates > h,
            buffers(room, workers, z),
            *arrays(bu, enters, y, v, out),
        )
        ctx.given = given
        ctx.save_for_backward(z, bu, enters, y, v, scale, *weights)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        from aireprune.kernels.numba import s5_training as numba_block
        from aireprune.kernels.numba.compile import threads

        z, bu, enters, y, v, scale, *weights = ctx.saved_tensors
        _, norm_bias, lam_re, lam_im, b, c, d, gate, _ = (w.detach().contiguous() for w in weights)
        given, grad = ctx.given, grad.contiguous()
        (batch, length, h), width, gates = z.shape, len(b), len(gate)
        directions, workers = c.shape[1] // width, min(threads(), batch)
        dz = fresh(z, *z.shape)
        shapes = numba_block.sums_room(h, width, gates, directions, z.element_size())
        sums = [np.zeros((workers, *shape), z.numpy().dtype) for shape in shapes]
        numba_block.backward(
            *arrays(grad, z),
            arrays(bu, enters, y, v),
            arrays(lam_re, lam_im),
            *arrays((b * scale).T.contiguous(), c.T.contiguous(), d * scale, gate.T.contiguous()),
            arrays(given.first, given.second),
            given.mean.numpy(),
            gates > h,
            buffers(numba_block.backward_room(length, h, width, gates, z.element_size()), workers, z),
            tuple(sums),
            dz.numpy(),
        )
        d_gate, of_c, of_b, d_bias, of_y, of_yz, of_bu, d_lam = (torch.from_numpy(total).sum(0) for total in sums)
        of_y, of_yz, of_bu, d_lam, d_bias = of_y[0], of_yz[0], of_bu[0], d_lam[0], d_bias[0]
        d_gate, of_b = d_gate[:, :h], of_b[:, :h]
        d_c = torch.cat([of_c[i * h : (i + 1) * h, :width] for i in range(directions)], dim=1)
        over = of_bu @ b + d * of_y  # of du
        weighted = (b * of_b).sum(0) + d * of_yz  # of du times z about its mean
        inverse = torch.rsqrt(given.variance + given.eps)
        if not given.frozen:
            count = batch * length
            centre, tilt = scale * over / count, scale * inverse.square() * weighted / count
            numba_block.norm_backward(*arrays(dz, z, given.mean, centre, tilt), workers)
        d_b = torch.addr(of_b * scale, of_bu, norm_bias)
        d_d = scale * of_yz + norm_bias * of_y
        d_re, d_im = d_lam.chunk(2)
        return dz, None, weighted * inverse, over, d_re, d_im, d_b, d_c, d_d, d_gate, d_bias


def _batch_moments(z: Tensor, given: Given, workers: int) -> None:
    """Mean and biased variance over batch and time, from those of every sequence."""
    from aireprune.kernels.numba import s5_training as numba_block

    means, squares = z.new_empty(len(z), z.shape[2]), z.new_empty(len(z), z.shape[2])
    numba_block.moments(z.numpy(), workers, means.numpy(), squares.numpy())
    means, squares = means.double(), squares.double()
    mean = means.mean(0)
    variance = squares.sum(0) / (z.shape[0] * z.shape[1]) + (means - mean).square().mean(0)
    given.mean.copy_(mean)
    given.variance.copy_(variance)
