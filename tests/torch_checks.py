"""Checks that operators and models share: torch.compile, torch.export, autocast and forward mode see the same numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers that depend on the shape only."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def compiled(function: Callable[..., Tensor], backend: str = "aot_eager") -> Callable[..., Tensor]:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend)


def check_compiled(call: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """The same outputs and gradients in one graph, with and without gradients."""
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [call(inputs[0]), compiled(call)(inputs[1])]
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y, x in zip(outputs, inputs, strict=True)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(call)(inputs[0]), outputs[0], rtol=1e-5, atol=1e-5)


def check_compiled_step(step: Callable[[Tensor, Tensor], Tensor], state: Tensor, x: Tensor) -> None:
    """The same output in one graph, and the same change of the state in place."""
    states = [state.clone(), state.clone()]
    with torch.no_grad():
        outputs = [step(states[0], x), compiled(step)(states[1], x)]
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(states[1], states[0], rtol=1e-5, atol=1e-5)
    assert not torch.equal(states[0], state)


def check_autocast(call: Callable[[Tensor], Tensor], x: Tensor) -> None:
    expected = call(x)
    with torch.autocast("cpu", torch.bfloat16):
        for found in (call(x), call(x.bfloat16())):
            torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05 * float(expected.abs().max()))
        assert call(x.bfloat16()).dtype == torch.bfloat16


def check_compiled_and_exported_model(model: nn.Module, x: Tensor) -> None:
    """In one graph, which holds our operators when it is exported."""
    model = model.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-5)
        program = torch.export.export(model, (x,))
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-5)
    assert any("aireprune" in str(node.target) for node in program.graph.nodes)


def check_model_under_autocast(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x).float().square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(loss, model(x).square().mean(), rtol=0.1, atol=0.05)


def check_forward_mode(model: nn.Module, x: Tensor) -> None:
    """Forward-mode derivatives, which no kernel knows, are those of the outputs."""
    model, x, step = copy.deepcopy(model).eval().double().requires_grad_(False), x.double(), 1e-6
    direction = draw(*x.shape[::-1], dtype=torch.float64).reshape(x.shape)
    _, tangent = torch.func.jvp(model, (x,), (direction,))
    numeric = (model(x + step * direction) - model(x - step * direction)) / (2 * step)
    torch.testing.assert_close(tangent, numeric, rtol=1e-5, atol=1e-6)
