"""An S5 or LRU block in training on the CPU: batch norm, layer, half_glu2 gate, dropout and residual with one hand-written
backward pass.

Matrix products are torch's; the scans and all that lies between are numba kernels that pass over memory once. Shapes: b
batch, L time, h features, P modes, d directions. The batch norm is never applied by itself: it is folded into B and D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aireprune.kernels.inputs import expect
from aireprune.kernels.scan import fresh


@dataclass(frozen=True, kw_only=True)
class Given:
    """What takes no gradient. eps: of the norm. first, second (b, h): factors of the dropouts after GELU and gate.

    After the forward pass, mean and variance (h,) are those of the batch, biased.
    """

    eps: float
    first: Tensor
    second: Tensor
    mean: Tensor
    variance: Tensor


def s5_training_block(
    z: Tensor,
    given: Given,
    norm: tuple[Tensor, Tensor],
    system: Sequence[Tensor],
    d: Tensor,
    gate: tuple[Tensor, Tensor],
) -> Tensor:
    """z (b, L, h) -> (b, L, h). norm: weight and bias (h,). system: lam_re, lam_im (P,), [Re B; Im B] (2P, h), and the
    readouts (h, 2P d) that multiply [Re x | Im x] of every direction. gate: weight (h, h) and bias (h,) of out2."""
    h, p = z.shape[2], len(system[0])
    expect(
        "s5_training_block", z=(z, (*z.shape[:2], h)), b=(system[2], (2 * p, h)), d=(d, (h,)), gate=(gate[0], (h, h))
    )
    result: Tensor = _Block.apply(z, given, *norm, *system, d, *gate)
    return result


def _like(z: Tensor) -> Tensor:
    return fresh(z, *z.shape)


def _rows(t: Tensor) -> Tensor:
    """(b, L, w) -> (b L, w)."""
    return t.view(-1, t.shape[2])


class _Block(torch.autograd.Function):
    """`s5_training_block`; saved are z, the states x, y, a and g."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, given: Given, *weights: Tensor) -> Tensor:
        from aireprune.kernels.numba import s5_training as numba_block
        from aireprune.kernels.numba import scan as numba_scan

        norm_weight, norm_bias, lam_re, lam_im, b, c, d, gate, bias = (w.detach().contiguous() for w in weights)
        z = z.detach().contiguous()
        batch, length, _ = z.shape
        directions = c.shape[1] // len(b)
        _batch_moments(z, given)
        scale = norm_weight / torch.sqrt(given.variance + given.eps)
        shift = norm_bias - given.mean * scale
        bu, x = fresh(z, batch, length, len(b)), fresh(z, batch, length, directions, len(b))
        torch.addmm(b @ shift, _rows(z), (b * scale).T, out=_rows(bu))
        numba_scan.scan_forward(lam_re.numpy(), lam_im.numpy(), bu.numpy(), x.numpy())
        y, g, a, out = _like(z), _like(z), _like(z), _like(z)
        torch.mm(x.view(-1, c.shape[1]), c.T, out=_rows(y))
        arrays = [t.numpy() for t in (scale, shift, d, given.first)]
        numba_block.activate(z.numpy(), *arrays, y.numpy(), g.numpy())
        torch.addmm(bias, _rows(g), gate.T, out=_rows(a))
        numba_block.close(z.numpy(), y.numpy(), a.numpy(), given.second.numpy(), out.numpy())
        ctx.given = given
        ctx.save_for_backward(z, x, y, g, a, scale, shift, *weights)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        from aireprune.kernels.numba import s5_training as numba_block
        from aireprune.kernels.numba import scan as numba_scan

        z, x, y, g, a, scale, shift, *weights = ctx.saved_tensors
        _, _, lam_re, lam_im, b, c, d, gate, _ = (w.detach().contiguous() for w in weights)
        given, grad = ctx.given, grad.contiguous()
        batch, length, h = z.shape
        dy, da, work, sums = _like(z), _like(z), _like(z), z.new_empty(2, batch, h)
        numba_block.close_backward(
            grad.numpy(), y.numpy(), a.numpy(), given.second.numpy(), dy.numpy(), da.numpy(), sums[0].numpy()
        )
        d_bias, d_gate = sums[0].sum(0), _rows(da).T @ _rows(g)
        torch.mm(_rows(da), gate, out=_rows(work))
        arrays = [t.numpy() for t in (z, y, scale, shift, given.first)]
        numba_block.activate_backward(work.numpy(), *arrays, dy.numpy(), sums[0].numpy())
        d_d, states = sums[0].sum(0), x.view(-1, c.shape[1])
        d_c, dx = _rows(dy).T @ states, fresh(z, *x.shape)
        torch.mm(_rows(dy), c, out=dx.view(-1, c.shape[1]))
        dbu, d_lam = fresh(z, batch, length, len(b)), z.new_empty(batch, len(b))
        numba_scan.scan_backward(lam_re.numpy(), lam_im.numpy(), x.numpy(), dx.numpy(), dbu.numpy(), d_lam.numpy())
        d_b = torch.addr((_rows(dbu).T @ _rows(z)) * scale, _rows(dbu).sum(0), shift)
        du = torch.mm(_rows(dbu), b, out=_rows(work)).view_as(z)
        numba_block.norm_sums(du.numpy(), dy.numpy(), z.numpy(), d.numpy(), given.mean.numpy(), sums.numpy())
        over, weighted = sums.sum(1)
        inverse = torch.rsqrt(given.variance + given.eps)
        count = batch * length
        centre, tilt = scale * over / count, scale * inverse.square() * weighted / count
        arrays = [t.numpy() for t in (given.mean, scale, centre, tilt)]
        numba_block.norm_backward(grad.numpy(), du.numpy(), z.numpy(), *arrays)
        d_re, d_im = d_lam.sum(0).chunk(2)
        return du, None, weighted * inverse, over, d_re, d_im, d_b, d_c, d_d, d_gate, d_bias


def _batch_moments(z: Tensor, given: Given) -> None:
    """Mean and biased variance over batch and time, from those of every sequence."""
    from aireprune.kernels.numba import s5_training as numba_block

    means, squares = z.new_empty(len(z), z.shape[2]), z.new_empty(len(z), z.shape[2])
    numba_block.moments(z.numpy(), means.numpy(), squares.numpy())
    means, squares = means.double(), squares.double()
    mean = means.mean(0)
    variance = squares.sum(0) / (z.shape[0] * z.shape[1]) + (means - mean).square().mean(0)
    given.mean.copy_(mean)
    given.variance.copy_(variance)
