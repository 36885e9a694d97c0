"""Our Mamba: the scan against its reference, decoding against prefill, training, and the public checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from shared_data import shared
from torch import Tensor

from aireprune.families import find_layers
from aireprune.kernels import conv, selective
from aireprune.models.arrays import ModuleArrays
from aireprune.models.mamba import MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig

SMALL = MambaConfig(d_input=3, d_output=5, d_model=8, layers=2, d_state=4)


def scan_inputs(batch: int, length: int, d: int, n: int, dtype: torch.dtype, grad: bool = False) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((batch, length, d), (batch, length, d), (d, n), (batch, length, n), (batch, length, n), (d,), (d,))
    tensors = [torch.randn(*s, dtype=dtype) for s in (*shapes, (batch, length, d), (batch, d, n))]
    tensors[2] = -torch.exp(tensors[2])
    return [t.requires_grad_(grad) for t in tensors]


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("length", "d", "n"), [(70, 70, 3), (5, 64, 1), (33, 3, 16)])
def test_scan_and_gradients(length: int, d: int, n: int, gated: bool) -> None:
    results = []
    for scan in (selective.selective_scan, selective.selective_scan_reference):
        inputs = scan_inputs(2, length, d, n, torch.float64, grad=True)
        arguments = [*inputs[:7], inputs[7] if gated else None, inputs[8]]
        y, final = scan(*arguments)  # type: ignore[arg-type]
        loss = (y * torch.cos(torch.arange(y.numel())).view_as(y)).sum() + final.square().sum()
        results.append((y, final, *torch.autograd.grad(loss, [t for t in arguments if t is not None])))
    for ours, reference in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-9)


def test_scan_in_float32_and_in_place() -> None:
    inputs = scan_inputs(2, 40, 130, 4, torch.float32)
    expected, final = selective.selective_scan_reference(*(t.double() for t in inputs))
    with torch.no_grad():
        plain = selective.selective_scan(*inputs)
        wide = torch.cat([inputs[0], inputs[7]], -1)  # the gate as half of a projection
        in_place = selective.selective_scan(*inputs[:7], wide[..., 130:], inputs[8], reuse_dt=True)
    for y, state in (plain, in_place):
        torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(state.double(), final, rtol=1e-5, atol=1e-5)
    assert in_place[0].data_ptr() == inputs[1].data_ptr()


def test_scan_of_nothing_and_of_decayed_input() -> None:
    inputs = scan_inputs(1, 6, 5, 0, torch.float32)
    y, final = selective.selective_scan(*inputs)
    torch.testing.assert_close(y, inputs[5] * inputs[0] * torch.nn.functional.silu(inputs[7]))
    assert final.shape == (1, 5, 0)


def test_step_is_scan() -> None:
    x, dt, A, b, c, d, bias, z, state = scan_inputs(2, 6, 70, 3, torch.float32)
    expected, final = selective.selective_scan(x, dt, A, b, c, d, bias, z, state)
    with torch.no_grad():
        steps = [
            selective.selective_step(state, x[:, t], dt[:, t], A, b[:, t], c[:, t], d, bias, z[:, t]) for t in range(6)
        ]
    torch.testing.assert_close(torch.stack(steps, 1), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, final, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("before", [True, False])
def test_convolution(before: bool) -> None:
    torch.manual_seed(0)
    u, weight, bias, past = torch.randn(2, 140, 12)[..., 5:], torch.randn(7, 1, 4), torch.randn(7), torch.randn(2, 3, 7)
    context = past if before else None
    expected = conv.causal_conv(u, weight.requires_grad_(), bias, context)
    torch.testing.assert_close(conv.causal_conv(u, weight.detach(), bias, context), expected, rtol=1e-5, atol=1e-5)


def test_operators_are_well_formed() -> None:
    inputs = scan_inputs(1, 5, 6, 2, torch.float32, grad=True)
    torch.library.opcheck(selective._selective_scan, tuple(inputs), test_utils=("test_schema", "test_faketensor"))


def test_decoding_continues_a_prefix() -> None:
    model = initialize(
        MambaModel(MambaConfig.from_dict({**SMALL.to_dict(), "mode": "tokens", "states": [4, 2]}))
    ).eval()
    tokens = torch.randint(0, 3, (2, 12))
    with torch.no_grad():
        whole, caches = model(tokens), model.new_caches(2)
        parts = [model(piece, caches=caches) for piece in tokens.split([5, 4, 1, 1, 1], dim=1)]
    assert whole.shape == (2, 12, 5)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["pool", "last"])
def test_lengths_ignore_padding(mode: str) -> None:
    model = initialize(MambaModel(MambaConfig.from_dict({**SMALL.to_dict(), "mode": mode}))).eval()
    x = torch.randn(2, 9, 3)
    with torch.no_grad():
        torch.testing.assert_close(model(x, torch.tensor([9, 6]))[1], model(x[1:, :6])[0], rtol=1e-4, atol=1e-5)


def test_training_lowers_the_loss() -> None:
    model = initialize(MambaModel(SMALL)).train()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    x, y, losses = torch.randn(16, 20, 3), torch.arange(16) % 5, []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_configuration_round_trip() -> None:
    for config in (
        SMALL,
        SMALL.with_states((3, 1)),
        MambaConfig(1, 2, 8, 1, residual=False, norm="none", final_norm="rms"),
    ):
        model = MambaModel(config)
        shapes = {name: tuple(t.shape) for name, t in model.state_dict().items()}
        inferred = MambaConfig.infer(shapes)
        assert inferred.state_sizes == config.state_sizes
        MambaModel(inferred).load_state_dict(model.state_dict())
        assert MambaConfig.from_dict(config.to_dict()) == config
        assert [layer.states for layer in find_layers(ModuleArrays(model), {})] == list(config.state_sizes)


def test_public_checkpoint() -> None:
    checkpoint, digits = shared("checkpoints/mamba_smnist.pth"), shared("mnist.npz")
    weights = torch.load(checkpoint, weights_only=True, map_location="cpu")["model_state_dict"]
    model = MambaModel(MambaConfig.infer({name: tuple(t.shape) for name, t in weights.items()})).eval()
    model.load_state_dict(weights)
    with np.load(digits) as data:
        x, y = data["xte"][:200].reshape(200, 784, 1), data["yte"][:200]
    inputs = torch.from_numpy((x.astype(np.float32) / 255 - 0.1307) / 0.3081)
    with torch.no_grad():
        correct = (model(inputs).argmax(-1).numpy() == y).mean()
    assert correct == pytest.approx(0.98)
