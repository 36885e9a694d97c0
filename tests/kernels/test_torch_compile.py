"""torch.compile, torch.export and autocast see the operators as any other: same numbers, no graph break."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from aireprune.kernels.conv import causal_conv
from aireprune.kernels.s4d import s4d as s4d_layer
from aireprune.kernels.selective import selective_scan, selective_step
from aireprune.kernels.ssd import ssd_scan, ssd_step
from aireprune.models import mamba, s4d
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d_config import S4DConfig

MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "mamba": lambda: mamba.initialize(mamba.MambaModel(MambaConfig(3, 5, 8, 2, d_state=4))),
    "s4d": lambda: s4d.initialize(s4d.S4DModel(S4DConfig(3, 5, 12, 8, 2))),
}


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


# what the calls below share; A (6, 3) < 0
DT, A, B, D, TAPS = draw(2, 9, 6), -torch.exp(draw(6, 3)), draw(2, 9, 3), draw(6), draw(6, 1, 4)
HEADS_DT, HEADS_A, HEADS_D, GROUPS_B = draw(2, 9, 2), -torch.exp(draw(2)), draw(2), draw(2, 9, 1, 3)
LAM, W = torch.polar(draw(6, 2).sigmoid(), draw(6, 2)), torch.complex(draw(6, 2), draw(6, 2))

CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "selective_scan": lambda x: selective_scan(x, DT, A, B, B.flip(1), D, D, DT.flip(1))[0],
    "ssd_scan": lambda x: ssd_scan(x.view(2, 9, 2, 3), HEADS_DT, HEADS_A, GROUPS_B, GROUPS_B.flip(1), HEADS_D, HEADS_D)[
        0
    ],
    "s4d": lambda x: s4d_layer(LAM, W, D, x),
    "causal_conv": lambda x: causal_conv(x, TAPS, D),
}
STEPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "selective_step": lambda h, x: selective_step(h, x, DT[:, 0], A, B[:, 0], B[:, 1], D, D, DT[:, 1]),
    "ssd_step": lambda h, x: ssd_step(
        h.view(2, 2, 3, 3), x.view(2, 2, 3), HEADS_DT[:, 0], HEADS_A, GROUPS_B[:, 0], GROUPS_B[:, 1], HEADS_D, HEADS_D
    ),
}


def compiled(function: Callable[..., Tensor], backend: str = "aot_eager") -> Callable[..., Tensor]:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend)


@pytest.mark.parametrize("name", CALLS)
def test_compiled_operators_and_their_gradients(name: str) -> None:
    inputs = [draw(2, 9, 6).requires_grad_() for _ in range(2)]
    outputs = [CALLS[name](inputs[0]), compiled(CALLS[name])(inputs[1])]
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y, x in zip(outputs, inputs, strict=True)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(CALLS[name])(inputs[0]), outputs[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", STEPS)
def test_compiled_steps_change_the_state(name: str) -> None:
    states = [draw(2, 6, 3), draw(2, 6, 3)]
    with torch.no_grad():
        outputs = [STEPS[name](states[0], draw(2, 6)), compiled(STEPS[name])(states[1], draw(2, 6))]
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(states[1], states[0], rtol=1e-5, atol=1e-5)
    assert not torch.equal(states[0], draw(2, 6, 3))


@pytest.mark.parametrize("name", MODELS)
def test_compiled_models(name: str) -> None:
    model = MODELS[name]().eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(draw(2, 9, 3)), model(draw(2, 9, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor's own imports
def test_inductor() -> None:
    """One operator between fused elementwise code; whole models compile as well, but take a minute."""
    function = lambda x: torch.tanh(CALLS["selective_scan"](2 * x))  # noqa: E731
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, "inductor")(DT), function(DT), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_exported_models_keep_the_operators(name: str) -> None:
    model = MODELS[name]().eval()
    with torch.no_grad():
        program = torch.export.export(model, (draw(2, 9, 3),))
        torch.testing.assert_close(program.module()(draw(2, 9, 3)), model(draw(2, 9, 3)), rtol=1e-4, atol=1e-5)
    assert any("aireprune" in str(node.target) for node in program.graph.nodes)


@pytest.mark.parametrize("name", CALLS)
def test_operators_under_autocast(name: str) -> None:
    x = draw(2, 9, 6)
    expected = CALLS[name](x)
    with torch.autocast("cpu", torch.bfloat16):
        for found in (CALLS[name](x), CALLS[name](x.bfloat16())):
            torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05 * float(expected.abs().max()))
        assert CALLS[name](x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's RMSNorm about its own slow path
@pytest.mark.parametrize("name", MODELS)
def test_models_under_autocast(name: str) -> None:
    model = MODELS[name]()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(draw(2, 9, 3)).float().square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(loss, model(draw(2, 9, 3)).square().mean(), rtol=0.1, atol=0.05)
