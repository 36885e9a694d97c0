"""state_axis: customised layers pruned with what their author declares about them, in memory, on disk and by a plan."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays
from torch import Tensor, nn
from torch.nn import functional as F

import aireprune
from aireprune.errors import AireError
from aireprune.families import Found, StateAxes, Units, find_layers
from aireprune.families.s4 import diagonalize
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import make_plan
from aireprune.pruning.request import PlanChoices, Request, make_request
from aireprune.pruning.source import open_file
from aireprune.pruning.surgery import operate

D, N, BANDS = 7, 6, 4
TRUNCATED: PlanChoices = {"reduce": "truncate", "layout": "adaptive"}
DECLARED = ("B_base=0", "C_base=0", "sel_bias_BC=0", "snr_proj.weight=0", "snr_proj.bias=0")


class NoiseGatedMixer(nn.Module):
    """A selective scan whose gates fall back on fixed ones, as in a public keyword spotter (rank 1)."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.d_state = states
        self.x_proj, self.dt_proj = nn.Linear(D, 1 + 2 * states, bias=False), nn.Linear(1, D)
        self.snr_proj = nn.Linear(BANDS, 1 + states)  # [dt | B]
        self.A_log, self.D = nn.Parameter(0.5 * torch.randn(D, states)), nn.Parameter(torch.randn(D))
        self.B_base, self.C_base = (nn.Parameter(torch.randn(states)) for _ in range(2))
        self.sel_bias_BC = nn.Parameter(torch.randn(states))
        self.alpha = nn.Parameter(torch.tensor(0.4))

    def forward(self, x: Tensor) -> Tensor:
        n, share = self.d_state, torch.sigmoid(self.sel_bias_BC)
        dt, b, c = self.x_proj(x).split([1, n, n], dim=-1)
        shift, gate = self.snr_proj(x[..., :BANDS]).split([1, n], dim=-1)
        b = (share * b + (1 - share) * self.B_base) * (1 - self.alpha + self.alpha * torch.sigmoid(gate))
        c = share * c + (1 - share) * self.C_base
        dt, h, out = F.softplus(self.dt_proj(dt + shift)), x.new_zeros(len(x), D, n), []
        for t in range(x.shape[1]):
            step = dt[:, t, :, None]
            h = (
                torch.exp(-step * torch.exp(self.A_log)) * h
                + step * b[:, t, None] * x[:, t, :, None]
                + 0.1 * x[:, t, :, None]
            )
            out.append((h * c[:, t, None]).sum(-1) + self.D * x[:, t])
        return torch.stack(out, 1)


class Spotter(nn.Module):
    def __init__(self, sizes: tuple[int, ...] = (N, N)) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"ssm": NoiseGatedMixer(n)}) for n in sizes)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + torch.tanh(block["ssm"](x))  # type: ignore[index]
        return x


@pytest.fixture
def spotter() -> Spotter:
    torch.manual_seed(0)
    return Spotter().eval()


def inputs() -> Tensor:
    return torch.randn(2, 8, D, generator=torch.Generator().manual_seed(1))


def test_without_declarations_nothing_is_cut(spotter: Spotter, tmp_path: Any) -> None:
    torch.save(spotter.state_dict(), tmp_path / "in.pth")
    message = r"Layer blocks\.0\.ssm .*B_base \(6,\), C_base \(6,\).*state_axis=\['B_base=0'"
    with pytest.raises(AireError, match=message):
        aireprune.prune(spotter, ratio=0.5)
    for mask in (False, True):
        with pytest.raises(AireError, match=message):
            aireprune.prune_file(tmp_path / "in.pth", tmp_path / "out.pth", ratio=0.5, mask=mask)
    with pytest.raises(AireError, match=r"beside the tensors of one it has snr_proj\.weight \(7, 4\), snr_proj\.bias"):
        aireprune.plan(spotter, ratio=0.5, state_axis=DECLARED[:3])
    assert [path.name for path in tmp_path.iterdir()] == ["in.pth"]


@pytest.mark.parametrize("layout", ["adaptive", "uniform", "padded"])
def test_masked_is_removed_is_what_the_authors_class_loads(spotter: Spotter, layout: str, tmp_path: Any) -> None:
    torch.save(spotter.state_dict(), tmp_path / "in.pth")
    options: dict[str, Any] = {"ratio": 0.4, "layout": layout, "state_axis": DECLARED}
    plan = aireprune.prune_file(tmp_path / "in.pth", tmp_path / "out.pth", **options)
    sizes = tuple(layer.states for layer in open_file(tmp_path / "out.pth", units=plan.units).layers)
    author: Any = Spotter(sizes)
    author.load_state_dict(torch.load(tmp_path / "out.pth", weights_only=True))  # strict: every shape has to fit
    removed = aireprune.prune(spotter, **options)
    with torch.no_grad():
        full, masked = spotter(inputs()), aireprune.prune(spotter, plan, mask=True)(inputs())
        assert (full - masked).abs().max() > 1e-2
        torch.testing.assert_close(author(inputs()), masked, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(removed(inputs()), masked, rtol=1e-5, atol=1e-5)


def test_a_plan_remembers(spotter: Spotter, tmp_path: Any) -> None:
    plan = aireprune.plan(spotter, ratio=0.5, state_axis=DECLARED)
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert again.state_axes == DECLARED
    one, two = aireprune.prune(spotter, again).state_dict(), aireprune.prune(spotter, plan).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert one["blocks.0.ssm.B_base"].shape == (len(plan.layers[0].kept),)


def test_a_plan_is_bound_to_the_declared_tensors(spotter: Spotter) -> None:
    plan = aireprune.plan(spotter, ratio=0.5, state_axis=DECLARED)
    with torch.no_grad():
        spotter.get_parameter("blocks.1.ssm.C_base").add_(1)
    with pytest.raises(AireError, match="made from another checkpoint"):
        aireprune.prune(spotter, plan)


def s5_arrays(**further: tuple[int, ...]) -> Arrays:
    rng = np.random.default_rng(0)
    shapes = {"log_step": (N, 1), "B": (N, 3, 2), "C": (3, N, 2), **further}
    arrays = Arrays({f"seq.{name}": rng.normal(size=shape) for name, shape in shapes.items()})
    arrays["seq.Lambda_re"], arrays["seq.Lambda_im"] = -rng.uniform(0.1, 2, N), rng.uniform(0.1, 9, N)
    return arrays


def found(arrays: Arrays, request: Request) -> Found:
    return Found("arrays", arrays, {}, find_layers(arrays, {}, request.units))


def test_plans_without_the_field_still_load() -> None:
    request, _ = make_request("aire", 0.5, TRUNCATED)
    values = make_plan(found(s5_arrays(), request), request).to_dict()
    del values["state_axes"]
    plan = Plan.from_dict(values)
    assert plan.state_axes == ()
    assert plan.units == Units()
    for wrong in (["gate"], [3], "gate=0", None):
        with pytest.raises(AireError):
            Plan.from_dict({**values, "state_axes": wrong})


def test_what_is_not_known_is_not_certified_nor_reduced() -> None:
    """A declared tensor does something to the output that no Gramian knows of."""
    arrays, plain = s5_arrays(gate=(N,)), s5_arrays()
    request, _ = make_request("aire", 0.5, {**TRUNCATED, "state_axis": ["gate=0"]})
    source = found(arrays, request)
    surgery = operate(source, make_plan(source, request))
    assert surgery.reductions == [None]
    assert surgery.edits["seq.gate"](arrays["seq.gate"]).shape == (surgery.sizes[0],)
    request, _ = make_request("aire", 0.5, TRUNCATED)
    known = found(plain, request)
    assert operate(known, make_plan(known, request)).reductions != [None]
    for reduce in ("refit", "balanced"):
        request, _ = make_request("aire", 0.5, {**TRUNCATED, "state_axis": "gate=0", "reduce": reduce})
        with pytest.raises(AireError, match=r"Layer seq has tensors that no family knows \(gate\).*reduce='truncate'"):
            operate(source, make_plan(source, request))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((), r"state_axis=\['extra=1'\]"),
        (("extra=1",), "diagonalised before it is cut.*k.extra"),
        (("extra=none",), None),
    ],
)
def test_s4_with_a_low_rank_part(axes: tuple[str, ...], message: str | None) -> None:
    """Its states become others when it is diagonalised, before anything is cut along them."""
    rng, h, n = np.random.default_rng(0), 2, 3
    shapes = {
        "A_real": (h, n),
        "A_imag": (h, n),
        "B": (1, h, n, 2),
        "C": (1, h, n, 2),
        "P": (1, h, n, 2),
        "inv_dt": (h, 1),
    }
    arrays = Arrays({f"k.{name}": rng.normal(size=shape) for name, shape in {**shapes, "extra": (h, n)}.items()})
    units = Units(state_axes=StateAxes.parse(axes))
    if message is None:
        assert diagonalize(arrays, {}, units) is not None
    else:
        with pytest.raises(AireError, match=message):
            diagonalize(arrays, {}, units)


def test_json_of_a_plan(spotter: Spotter) -> None:
    written = json.loads(aireprune.plan(spotter, ratio=0.5, state_axis=DECLARED).to_json())
    assert (written["schema"], written["state_axes"]) == (1, list(DECLARED))
