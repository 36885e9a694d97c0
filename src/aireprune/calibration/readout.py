"""Calibrated readouts: one walk through the stack that fits every reduced layer to what the full layer put out.

At layer i the full model's layer reads its own activation and puts out the target. The reduced layer reads the
activation of the reduced model, whose earlier layers are calibrated already, so that it also makes up for what they
got wrong. Its readout is linear in the weights, and is solved for by ridge least squares towards the present weights
(`aireprune.calibration.moments`). No labels, no gradients.

    S5      y = C1 x + C2 x' + D u, all outputs at once
    S4D     every channel y = Re(w x) + D u by itself, w = 2 C B
    Mamba   see `aireprune.calibration.selective`
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.calibration.inputs import COUNT, InputSource, read_inputs
from aireprune.calibration.linear import fit_linear
from aireprune.calibration.moments import Moments, MomentsWithSkip, best_change
from aireprune.calibration.norms import match_batch_norm
from aireprune.calibration.selective import fit_mamba
from aireprune.calibration.stack import MambaStack, S4DStack, S5Stack, open_stack, parameters_match
from aireprune.calibration.walk import MEMORY, Walk, read_and_target
from aireprune.kernels.scan import diagonal_scan
from aireprune.models.discretize import discretize
from aireprune.models.evaluation import evaluation_mode
from aireprune.models.s4d import S4DKernel

MODES_AT_ONCE = 256  # S4D modes whose states are held together


@torch.no_grad()
def calibrate(
    full: nn.Module, reduced: nn.Module, inputs: InputSource, count: int = COUNT, memory: int = MEMORY
) -> nn.Module:
    """A copy of the reduced model with readouts fitted to the full model on unlabelled inputs.

    inputs: an array of model inputs, a task's name, a .npy or .npz file, or a directory of them; at most `count`
    sequences are used. memory: bytes of activations that may be kept; beyond, they are made again when needed.
    """
    parameters_match(full, reduced)
    out = copy.deepcopy(reduced)
    with evaluation_mode(full, out):
        teacher, student = open_stack(full), open_stack(out)
        walk = Walk(teacher, student, read_inputs(inputs, count), memory)
        for _ in range(student.depth):
            calibrate_layer(walk)
            walk.advance()
    return out


def calibrate_layer(walk: Walk) -> None:
    """Fit the layer the walk stands at."""
    student = walk.reduced
    if isinstance(student, S5Stack):
        match_batch_norm(walk, before=True)
        fit_s5(walk, student)
        match_batch_norm(walk, before=False)
    elif isinstance(student, S4DStack):
        fit_s4d(walk, student)
        fit_s4d_mixing(walk, student)
    elif isinstance(student, MambaStack):
        fit_mamba(walk, student)


def fit_s5(walk: Walk, student: S5Stack) -> None:
    """C1, C2 and D of an S5 layer."""
    ssm = student.block(walk.at).seq
    if ssm.modes == 0:
        return
    lam, b_bar = ssm.discrete()
    into = torch.cat([b_bar.real, b_bar.imag]).T
    width = 2 * ssm.modes * (2 if ssm.bidirectional else 1)
    parts = [MomentsWithSkip.empty(width, len(ssm.D)) for _ in range(2)]
    for u, target, held in read_and_target(walk):
        x = diagonal_scan(lam, u @ into.to(u.dtype), ssm.bidirectional)
        parts[held].add_with_skip(x.flatten(0, 1).flatten(1), u.flatten(0, 1), (target - ssm(u)).flatten(0, 1))
    change = best_change(parts[0], parts[1] if parts[1].power > 0 else None)
    ssm.D.add_(change[-1])
    scale = 2.0 if ssm.conj_sym else 1.0
    for c, rows in zip(ssm.readouts(), change[:-1].split(2 * ssm.modes), strict=True):
        re, im = rows.T.to(c.dtype).chunk(2, dim=1)  # y = s Re(c) Re(x) - s Im(c) Im(x)
        c += torch.stack([re, -im], -1) / scale


def fit_s4d(walk: Walk, student: S4DStack) -> None:
    """C and D of every channel of an S4D layer; channels with equally many modes are solved together."""
    layer = student.layer(walk.at)
    lam, w = layer.kernel.discrete()
    counts = (w != 0).sum(1)
    groups = [
        group
        for size in counts.unique()
        for group in torch.nonzero(counts == size)[:, 0].split(max(1, MODES_AT_ONCE // max(int(size), 1)))
    ]
    modes = [torch.nonzero(w[group] != 0)[:, 1].reshape(len(group), -1) for group in groups]  # (channels, modes)
    parts = [
        [Moments.zeros(2 * index.shape[1] + 1, 1, (len(group),)) for _ in range(2)]
        for group, index in zip(groups, modes, strict=True)
    ]
    for u, target, held in read_and_target(walk):
        residual = (target - layer.ssm(u)).flatten(0, 1)
        for group, index, moments in zip(groups, modes, parts, strict=True):
            features = channel_features(lam[group].gather(1, index), u[..., group])
            moments[held].add(features, residual[:, group].T[..., None])
    factor = kernel_factor(layer.kernel)
    for group, index, (fit, held_part) in zip(groups, modes, parts, strict=True):
        change = best_change(fit, held_part if held_part.power.any() else None)[..., 0]
        layer.D[group] += change[:, -1].to(layer.D.dtype)
        re, im = change[:, :-1].chunk(2, dim=1)
        new = torch.complex(re, -im) / (2 * factor[group].gather(1, index))
        rows = group[:, None].expand_as(index)
        layer.kernel.C[rows, index] += torch.view_as_real(new).to(layer.kernel.C.dtype)


def fit_s4d_mixing(walk: Walk, student: S4DStack) -> None:
    """The dense layer behind an S4D layer: what one channel lost, the others may know."""
    teacher, i = walk.full, walk.at
    assert isinstance(teacher, S4DStack)
    mixing = student.mixing(i)
    stream = (
        (F.gelu(student.put_out(i, u)), teacher.mix(i, F.gelu(target)), held)
        for u, target, held in read_and_target(walk)
    )
    fit_linear(mixing.weight[:, :, 0], mixing.bias, stream)


def channel_features(lam: Tensor, u: Tensor) -> Tensor:
    """[Re x | Im x | u] of channels with poles lam (g, m), x = lam x + u, as (g, b L, 2m + 1); u is (b, L, g)."""
    g, m = lam.shape
    skip = u.flatten(0, 1).T[..., None]
    if m == 0:
        return skip
    drive = u.repeat_interleave(m, -1)
    x = diagonal_scan(lam.flatten(), torch.cat([drive, torch.zeros_like(drive)], -1))
    states = x.reshape(-1, 2, g, m).permute(2, 0, 1, 3).flatten(2)  # (g, b L, 2m)
    return torch.cat([states, skip], -1)


def kernel_factor(kernel: S4DKernel) -> Tensor:
    """The factor (lam - 1)/A that turns B = 1 into its discrete form, (h, N) complex128."""
    a = torch.complex(-torch.exp(kernel.log_A_real.double()), kernel.A_imag.double())
    return discretize(a, torch.exp(kernel.log_dt.double())[:, None], "zoh")[1]
