"""Vim, the bidirectional Mamba: two scans with tensors and states of their own, cut together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays, Shapes
from torch import Tensor, nn
from torch.nn import functional as F

import aireprune
from aireprune.errors import AireError
from aireprune.families import find_layers
from aireprune.families.mamba import Mamba
from aireprune.method.criteria import CRITERIA, Conditions
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import open_module

FAMILY = Mamba()
D, N, R, MODEL = 6, 5, 2, 4


class VimMixer(nn.Module):
    """Vim's mixer by definition: the forward scan, plus the backward scan of the reversed sequence, reversed again."""

    def __init__(self) -> None:
        super().__init__()
        self.d_state = N
        self.in_proj = nn.Linear(MODEL, 2 * D, bias=False)
        self.out_proj = nn.Linear(D, MODEL, bias=False)
        for suffix, poles in (("", "A_log"), ("_b", "A_b_log")):
            self.register_module("conv1d" + suffix, nn.Conv1d(D, D, 3, groups=D, padding=2))
            self.register_module("x_proj" + suffix, nn.Linear(D, R + 2 * N, bias=False))
            self.register_module("dt_proj" + suffix, nn.Linear(R, D))
            self.register_parameter(poles, nn.Parameter(0.5 * torch.randn(D, N)))
            self.register_parameter("D" + suffix, nn.Parameter(torch.randn(D)))

    def scan(self, x: Tensor, z: Tensor, suffix: str, poles: Tensor) -> Tensor:
        part = {name: getattr(self, name + suffix) for name in ("conv1d", "x_proj", "dt_proj", "D")}
        x = F.silu(part["conv1d"](x.mT)[..., : x.shape[1]]).mT
        dt, b, c = part["x_proj"](x).split([R, self.d_state, self.d_state], dim=-1)
        dt, state, out = F.softplus(part["dt_proj"](dt)), x.new_zeros(len(x), D, self.d_state), []
        for t in range(x.shape[1]):
            decay = torch.exp(-dt[:, t, :, None] * torch.exp(poles))
            state = decay * state + dt[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
            out.append((state * c[:, t, None]).sum(-1) + part["D"] * x[:, t])
        return torch.stack(out, 1) * F.silu(z)

    def forward(self, u: Tensor) -> Tensor:
        x, z = self.in_proj(u).chunk(2, dim=-1)
        back = self.scan(x.flip(1), z.flip(1), "_b", self.A_b_log).flip(1)
        y: Tensor = self.out_proj(self.scan(x, z, "", self.A_log) + back)
        return y


class Vim(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"mixer": VimMixer()}) for _ in range(2))

    def forward(self, u: Tensor) -> Tensor:
        for layer in self.layers:
            u = u + layer["mixer"](u)  # type: ignore[index]
        return u


def vim() -> Vim:
    torch.manual_seed(0)
    return Vim().double().eval()


def mixer_arrays() -> Arrays:
    torch.manual_seed(0)
    return Arrays({name: t.detach().double().numpy() for name, t in VimMixer().state_dict().items()})


def test_two_directions_are_two_groups() -> None:
    (layer,) = find_layers(mixer_arrays(), {})
    assert (layer.states, layer.groups) == (2 * N, 2)
    assert FAMILY.stored(layer, np.array([1, 3, N, N + 4])) == 2


def test_energies_are_those_of_each_direction() -> None:
    arrays = mixer_arrays()
    (layer,) = find_layers(arrays, {})
    found = CRITERIA["energy"](FAMILY.states(layer, arrays), Conditions(None, 0, 0))
    expected = np.zeros((2, N))
    for direction, (suffix, poles) in enumerate((("", "A_log"), ("_b", "A_b_log"))):
        rows = arrays[f"x_proj{suffix}.weight"]
        for j in range(N):
            for d in range(D):
                step = np.log1p(np.exp(arrays[f"dt_proj{suffix}.bias"][d]))
                lam = np.exp(-step * np.exp(arrays[poles][d, j]))
                gains = (rows[R + j] ** 2).sum() * (rows[R + N + j] ** 2).sum()
                expected[direction, j] += step**2 * gains / (1 - lam**2)
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-12)
    assert not np.allclose(expected[0], expected[1])


def pruned(model: nn.Module, plan: Plan, **options: Any) -> Any:
    return aireprune.prune(model, plan, **options)


@pytest.mark.parametrize("layout", ["adaptive", "padded", "uniform"])
def test_masked_is_removed(layout: str) -> None:
    model, u = vim(), torch.randn(2, 9, MODEL, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    plan = aireprune.plan(model, ratio=0.5, layout=layout)
    kept = [np.array(layer.kept).reshape(2, -1) % N for layer in plan.layers]
    assert any((forward != backward).any() for forward, backward in kept)  # the directions choose for themselves
    with torch.no_grad():
        full, masked, removed = model(u), pruned(model, plan, mask=True)(u), pruned(model, plan)
        assert (full - masked).abs().max() > 1e-3
        torch.testing.assert_close(removed(u), masked, rtol=1e-10, atol=1e-12)
    for mixer in (layer["mixer"] for layer in removed.layers):
        assert mixer.A_log.shape == mixer.A_b_log.shape == (D, mixer.d_state)
        assert mixer.x_proj_b.weight.shape == (R + 2 * mixer.d_state, D) == mixer.x_proj.weight.shape
    assert [layer.groups for layer in open_module(removed).layers] == [2, 2]


def test_a_file_is_cut_in_both_directions(tmp_path: Any) -> None:
    model, u = vim().float(), torch.randn(1, 7, MODEL)
    torch.save(model.state_dict(), tmp_path / "vim.pth")
    plan = aireprune.prune_file(tmp_path / "vim.pth", tmp_path / "small.pth", ratio=0.4)
    small = pruned(model, plan)
    small.load_state_dict(torch.load(tmp_path / "small.pth", weights_only=True))  # strict: every shape has to fit
    with torch.no_grad():
        torch.testing.assert_close(small(u), pruned(model, plan, mask=True)(u), rtol=1e-4, atol=1e-5)


def test_directions_that_do_not_fit_are_refused() -> None:
    shapes = mixer_arrays().shapes
    with pytest.raises(AireError, match=r"dt_proj_b\.bias is missing"):
        FAMILY.find(Shapes({name: shape for name, shape in shapes.items() if name != "dt_proj_b.bias"}), {})
    smaller = {"A_b_log": (D, N - 1), "x_proj_b.weight": (R + 2 * (N - 1), D)}
    with pytest.raises(AireError, match=r"two directions .* of different sizes"):
        FAMILY.find(Shapes({**shapes, **smaller}), {})
    with pytest.raises(AireError, match=r"two directions .* and norms of B and C"):
        FAMILY.find(Shapes(shapes), {"model_type": "falcon_mamba"})


def test_half_of_a_second_direction_is_refused() -> None:
    """Without x_proj_b the layout is another one (both directions share the gates), which nobody should guess."""
    shapes = {name: shape for name, shape in mixer_arrays().shapes.items() if name != "x_proj_b.weight"}
    with pytest.raises(AireError, match=r"A_b_log \(6, 5\).*state_axis=\['A_b_log=1'\]"):
        find_layers(Shapes(shapes), {})
