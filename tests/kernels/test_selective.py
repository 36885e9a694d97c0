"""The selective scan: kernel = recurrence step by step, their gradients, decoding, and inputs that do not fit."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import Tensor
from torch_checks import check_autocast, check_compiled, check_compiled_step, compiled, draw

from aireprune.kernels import selective


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


def test_no_states() -> None:
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


def test_operator_contract() -> None:
    inputs = scan_inputs(1, 5, 6, 2, torch.float32, grad=True)
    torch.library.opcheck(
        selective._selective_scan.packet.default, tuple(inputs), test_utils=("test_schema", "test_faketensor")
    )


def named(dtype: torch.dtype = torch.float32, length: int = 6, **changes: Tensor) -> dict[str, Tensor]:
    """Arguments of a scan by name: 2 sequences, 20 channels, 3 states."""
    b, d, n = 2, 20, 3
    given = {
        "x": draw(b, length, d, dtype=dtype),
        "dt": draw(b, length, d, dtype=dtype),
        "A": -draw(d, n, dtype=dtype).abs(),
        "B": draw(b, length, n, dtype=dtype),
        "C": draw(b, length, n, dtype=dtype),
        "D": draw(d, dtype=dtype),
        "dt_bias": draw(d, dtype=dtype),
        "z": draw(b, length, d, dtype=dtype),
    }
    return {**given, **changes}


@pytest.mark.parametrize(
    "misfit",
    [
        {"A": -draw(21, 3).abs()},
        {"B": draw(2, 6, 2)},
        {"D": draw(8)},
        {"z": draw(2, 6, 19)},
        {"initial": draw(2, 20, 2)},
    ],
    ids=lambda misfit: next(iter(misfit)),
)
def test_shapes_that_do_not_fit(misfit: dict[str, Tensor]) -> None:
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \("):
        selective.selective_scan(**named(**misfit))


def test_a_state_that_does_not_fit() -> None:
    step = (draw(2, 20), draw(2, 20), -draw(20, 3).abs(), draw(2, 3), draw(2, 3), draw(20), draw(20))
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \("):
        selective.selective_step(draw(2, 19, 3), *step)


def test_no_steps() -> None:
    y, state = selective.selective_scan(**named(length=0))
    assert y.shape == (2, 0, 20)
    assert not state.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", named())
def test_nan_is_not_hidden(name: str, dtype: torch.dtype) -> None:
    arguments = named(dtype)
    arguments[name].view(-1)[0] = float("nan")
    y, _ = selective.selective_scan(**arguments)
    assert y.isnan().any()
    assert not selective.selective_scan(**named(dtype))[0].isnan().any()


# what the calls below share; A (6, 3) < 0
DT, A, B, D = draw(2, 9, 6), -torch.exp(draw(6, 3)), draw(2, 9, 3), draw(6)


def call(x: Tensor) -> Tensor:
    return selective.selective_scan(x, DT, A, B, B.flip(1), D, D, DT.flip(1))[0]


def step(state: Tensor, x: Tensor) -> Tensor:
    return selective.selective_step(state, x, DT[:, 0], A, B[:, 0], B[:, 1], D, D, DT[:, 1])


def test_compiled() -> None:
    check_compiled(call, draw(2, 9, 6))
    check_compiled_step(step, draw(2, 6, 3), draw(2, 6))


def test_autocast() -> None:
    check_autocast(call, draw(2, 9, 6))


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor's own imports
def test_inductor() -> None:
    """One operator between fused elementwise code; whole models compile as well, but take a minute."""
    function = lambda x: torch.tanh(call(2 * x))  # noqa: E731
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, "inductor")(DT), function(DT), rtol=1e-4, atol=1e-5)
