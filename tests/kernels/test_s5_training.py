"""The block in training: the values, gradients and running statistics of its parts, one by one."""

from __future__ import annotations

import copy

import pytest
import torch

from aireprune.kernels.s5_dispatch import trained_block
from aireprune.models.create import new_model
from aireprune.models.lru_config import LRUConfig
from aireprune.models.s5_config import S5Config

SIZES = {"d_input": 1, "d_output": 3, "h": 6, "n": 8, "layers": 1, "activation": "half_glu2"}
CONFIGS = {
    "s5": S5Config(**SIZES, bidirectional=True, C_init="lecun_normal", dropout=0.3),
    "one-direction": S5Config(**SIZES, C_init="lecun_normal", dropout=0.0),
    "full-spectrum": S5Config(**SIZES, conj_sym=False, bidirectional=True, C_init="complex_normal", dropout=0.3),
    "lru": LRUConfig(**SIZES, dropout=0.3),
    "full-glu": LRUConfig(**SIZES | {"activation": "full_glu", "h": 6}, dropout=0.3),
    "wide": S5Config(**SIZES | {"h": 37, "n": 26}, bidirectional=True, C_init="lecun_normal", dropout=0.3),
    "wide-full-glu": S5Config(
        **SIZES | {"h": 37, "n": 26, "activation": "full_glu"}, bidirectional=True, C_init="lecun_normal", dropout=0.3
    ),
}
MODES = ("training", "frozen norm", "evaluation")


def trained(name: str, mode: str = "training") -> torch.nn.Module:
    """The block of a model that learns, with weights and statistics that are not those of the beginning."""
    model = new_model(CONFIGS[name], 0).double().train()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    block = model.layers[0]
    block.norm.running_mean += 0.3 * torch.randn(
        block.norm.running_mean.shape, generator=generator, dtype=torch.float64
    )
    block.norm.running_var += torch.rand(block.norm.running_var.shape, generator=generator, dtype=torch.float64)
    if mode != "training":
        (block if mode == "evaluation" else block.norm).eval()
    return block


def in_parts(block: torch.nn.Module) -> torch.nn.Module:
    """A copy that is not fused, since somebody looks at a part of it."""
    copied = copy.deepcopy(block)
    copied.drop.register_forward_hook(lambda *seen: None)
    return copied


def inputs(batch: int = 3, length: int = 17, h: int = 6) -> torch.Tensor:
    z = torch.randn(batch, length, h, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return (2 * z + 1).requires_grad_()


def run(block: torch.nn.Module, z: torch.Tensor) -> dict[str, torch.Tensor]:
    """Everything that a training step leaves behind."""
    torch.manual_seed(3)
    weights = torch.randn(z.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    z = z.detach().clone().requires_grad_()
    out = block(z)
    (out * weights.to(z.dtype)).sum().backward()
    found = {f"gradient of {name}": p.grad for name, p in block.named_parameters()}
    return {"out": out, "gradient of z": z.grad, **found, **dict(block.norm.named_buffers())}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CONFIGS)
def test_equal_to_the_parts(name, mode):
    """Lengths of one chunk, of several with a rest, and of one step more than a chunk; one sequence, and several."""
    h = CONFIGS[name].h
    for z in (inputs(h=h), inputs(1, 97, h), inputs(2, 201, h)):
        block = trained(name, mode)
        expected = run(in_parts(block), z)
        assert trained_block(copy.deepcopy(block), z) is not None
        found = run(block, z)
        assert set(found) == set(expected)
        for what, value in expected.items():
            torch.testing.assert_close(
                found[what], value, rtol=1e-9, atol=1e-9, msg=lambda text, what=what: f"{what}: {text}"
            )


@pytest.mark.parametrize("mode", MODES)
def test_single_precision(mode):
    expected = run(in_parts(trained("s5", mode)), inputs())
    for what, value in run(trained("s5", mode).float(), inputs().float()).items():
        torch.testing.assert_close(value.double(), expected[what].double(), rtol=2e-4, atol=2e-4)


def test_the_same_bits_again():
    """For a number of threads."""
    runs = [run(trained("wide").float(), inputs(5, 201, 37).float()) for _ in range(2)]
    for what, value in runs[0].items():
        torch.testing.assert_close(runs[1][what], value, rtol=0, atol=0)


def test_any_number_of_threads():
    most = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = run(trained("wide"), inputs(5, 201, 37))
        torch.set_num_threads(2)
        found = run(trained("wide"), inputs(5, 201, 37))
    finally:
        torch.set_num_threads(most)
    for what, value in expected.items():
        torch.testing.assert_close(found[what], value, rtol=1e-10, atol=1e-10)


def test_gradients_are_the_derivatives():
    block = trained("one-direction")
    assert torch.autograd.gradcheck(block, (inputs(),), atol=1e-6)


def test_a_second_backward_pass_gives_the_same():
    block, z = trained("s5"), inputs()
    out = block(z)
    first, second = (torch.autograd.grad(out.sum(), z, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_inputs_in_any_layout():
    block, z = trained("s5"), inputs()
    strided = z.detach().transpose(1, 2).contiguous().transpose(1, 2)
    torch.manual_seed(0)
    expected = block(z)
    torch.manual_seed(0)
    torch.testing.assert_close(block(strided), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda block: block.seq.register_forward_hook(lambda *seen: None),
        lambda block: block.out2.register_full_backward_hook(lambda *seen: None),
        lambda block: setattr(block.norm, "momentum", None),
        lambda block: setattr(block, "activation", "half_glu1"),
        lambda block: block.requires_grad_(False),
    ],
    ids=["hook", "backward hook", "cumulative", "activation", "frozen"],
)
def test_left_to_the_parts(change):
    block, z = trained("s5"), inputs()
    assert trained_block(block, z) is not None
    change(block)
    assert trained_block(block, z.detach()) is None
