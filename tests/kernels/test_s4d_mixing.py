"""A block of S4D in training: the values and gradients of its parts, one by one."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

from aireprune.kernels.s4d_dispatch import trained_block
from aireprune.models import s4d
from aireprune.models.s4d_config import S4DConfig

CONFIGS = {
    "post-norm": S4DConfig(1, 3, 6, 8, 2),
    "pre-norm": S4DConfig(1, 3, 6, 8, 2, prenorm=True),
    "dropout": S4DConfig(1, 3, 6, 8, 2, dropout=0.3),
    "wide": S4DConfig(1, 3, 37, 8, 2, dropout=0.3),
    "vectors": S4DConfig(1, 3, 64, 4, 2, prenorm=True, dropout=0.3),
}
PARTS = {
    "layer": lambda model: model.s4_layers[0],
    "kernel": lambda model: model.s4_layers[0].kernel,
    "dropout after GELU": lambda model: model.s4_layers[0].drop,
    "mixing": lambda model: model.s4_layers[0].output_linear[0],
    "dropout after gate": lambda model: model.drop,
    "norm": lambda model: model.norms[0],
}


def learning(name: str = "post-norm", training: bool = True) -> torch.nn.Module:
    """A model with weights that are not those of the beginning."""
    model = s4d.initialize(s4d.S4DModel(CONFIGS[name])).double().train(training)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def in_parts(model: torch.nn.Module) -> torch.nn.Module:
    """A copy that is not fused, since somebody looks at a part of it."""
    copied = copy.deepcopy(model)
    copied.drop.register_forward_hook(lambda *seen: None)
    return copied


def inputs(batch: int = 3, length: int = 17, h: int = 6) -> torch.Tensor:
    z = torch.randn(batch, length, h, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return (2 * z + 1).requires_grad_()


def run(model: torch.nn.Module, z: torch.Tensor) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    weights = torch.randn(z.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    z = z.detach().clone().requires_grad_()
    out = model.block(0, z)
    (out * weights.to(z.dtype)).sum().backward()
    parameters = {**dict(model.s4_layers[0].named_parameters()), **dict(model.norms[0].named_parameters())}
    return {"out": out, "gradient of z": z.grad, **{name: p.grad for name, p in parameters.items()}}


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", CONFIGS)
def test_equal_to_the_parts(name, training):
    """Lengths of one chunk, of several with a rest, and of one step more than a chunk; one sequence, and several."""
    h = CONFIGS[name].h
    for z in (inputs(h=h), inputs(1, 97, h), inputs(2, 201, h)):
        model = learning(name, training)
        assert trained_block(copy.deepcopy(model), 0, z) is not None
        assert trained_block(in_parts(model), 0, z) is None
        expected, found = run(in_parts(model), z), run(model, z)
        assert set(found) == set(expected)
        for what, value in expected.items():
            torch.testing.assert_close(
                found[what], value, rtol=1e-9, atol=1e-9, msg=lambda text, what=what: f"{what}: {text}"
            )


def test_single_precision():
    expected = run(in_parts(learning("dropout")), inputs())
    for what, value in run(learning("dropout").float(), inputs().float()).items():
        torch.testing.assert_close(value.double(), expected[what].double(), rtol=2e-4, atol=2e-4)


def test_the_same_bits_again():
    """For a number of threads."""
    runs = [run(learning("wide").float(), inputs(5, 201, 37).float()) for _ in range(2)]
    for what, value in runs[0].items():
        torch.testing.assert_close(runs[1][what], value, rtol=0, atol=0)


def test_any_number_of_threads():
    most = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = run(learning("wide"), inputs(5, 201, 37))
        torch.set_num_threads(2)
        found = run(learning("wide"), inputs(5, 201, 37))
    finally:
        torch.set_num_threads(most)
    for what, value in expected.items():
        torch.testing.assert_close(found[what], value, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["post-norm", "pre-norm"])
def test_gradients_are_the_derivatives(name):
    assert torch.autograd.gradcheck(partial(learning(name).block, 0), (inputs(2, 5),), atol=1e-6)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_watched_runs_by_itself(part):
    model, z, seen = learning(), inputs(), []
    PARTS[part](model).register_forward_hook(lambda *_: seen.append(1))
    out = model.block(0, z)
    torch.testing.assert_close(out, learning().block(0, z), rtol=1e-9, atol=1e-9)
    assert bool(seen) == (part != "kernel")  # which has parameters only


def test_a_part_that_was_replaced_runs_by_itself():
    model = learning()
    model.s4_layers[0].output_linear.append(torch.nn.Identity())
    assert trained_block(model, 0, inputs()) is None


def test_without_gradients_nothing_is_fused():
    with torch.no_grad():
        assert trained_block(learning(), 0, inputs()) is None


def test_weights_that_learn_nothing_get_no_gradient():
    model = learning()
    model.norms[0].requires_grad_(False)
    expected = run(in_parts(learning()), inputs())
    found = run(model, inputs())
    assert found["bias"] is None
    torch.testing.assert_close(found["gradient of z"], expected["gradient of z"], rtol=1e-9, atol=1e-9)
