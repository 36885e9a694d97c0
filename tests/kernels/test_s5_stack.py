"""All blocks in one go: the same as block by block to rounding, whatever the model is, and zeros where nobody looks."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch

from aireprune.kernels import s5_dispatch
from aireprune.kernels.s5_stack import Words, fits, make_ready, run_ready
from aireprune.models.create import new_model
from aireprune.models.s5_config import S5Config

CONFIG = S5Config(d_input=7, d_output=3, h=10, n=16, layers=3, bidirectional=True, C_init="lecun_normal")
LENGTHS = torch.tensor([200, 1, 96, 97, 130])  # of one, two and three chunks


def made(config, dtype=torch.float32):
    """A model in evaluation mode whose batch norms have seen something, with layers of different sizes."""
    with warnings.catch_warnings(action="ignore"):  # a layer without states has no mean pole
        model = new_model(replace(config, states=(8, 5, 0)), 0).to(dtype).eval()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith(("running_mean", "norm.bias")):
                tensor.copy_(torch.linspace(-0.5, 0.5, len(tensor)))
    return model


def close(found, expected):
    """Compilers contract products and sums as they like: the last bits may differ."""
    exact = found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-12 if exact else 1e-5, atol=1e-13 if exact else 3e-6)


def one_by_one(model, z):
    for block in model.layers:
        z = s5_dispatch.fused_block(block, z)
    return z


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batchnorm": False},
        {"prenorm": False},
        {"prenorm": False, "batchnorm": False},
        {"bidirectional": False},
        {"activation": "full_glu"},
        {"activation": "half_glu1"},
        {"activation": "gelu"},
    ],
)
@torch.inference_mode()
def test_the_same_as_block_by_block(options, dtype):
    model = made(replace(CONFIG, **options), dtype)
    tokens = torch.randint(0, 7, (5, 200), generator=torch.Generator().manual_seed(0))
    z, looked_up = model.encode(tokens), s5_dispatch.words(model.encoder, tokens)
    whole, ready = one_by_one(model, z.clone()), make_ready(model.layers)
    counted = torch.arange(200)[None, :, None] < LENGTHS[:, None, None]
    for entering in (z, looked_up):
        assert fits(model.layers, entering)
        close(run_ready(ready, entering), whole)
        found = run_ready(ready, entering, LENGTHS)
        close(found, torch.where(counted, whole, 0))
        assert not found[~counted.expand_as(found)].any()


@torch.inference_mode()
def test_a_model_gives_the_same_answers_in_and_out_of_cache(monkeypatch):
    tokens = torch.randint(0, 7, (5, 200))
    for mode in ("pool", "last", "tokens"):
        model = made(replace(CONFIG, mode=mode))
        for lengths in (None, LENGTHS):
            ours = model(tokens, lengths)
            with monkeypatch.context() as changed:
                changed.setattr(s5_dispatch, "fits", lambda *given: False)
                close(ours, model(tokens, lengths))


@torch.inference_mode()
def test_what_does_not_fit_is_left_to_the_other_kernel():
    model, z = made(CONFIG), torch.zeros(5, 20, 10)
    assert fits(model.layers, z)
    assert not fits(model.layers, torch.zeros(5, 20_000, 10))
    assert not fits(model.layers, z.double())
    assert not fits(model.layers, z[:0])
    assert not fits([], z)
    model.layers[1].norm.eps = 0.5
    assert not fits(model.layers, z)


def test_tokens_that_do_not_exist_are_not_looked_up():
    model = made(CONFIG)
    assert s5_dispatch.words(model.encoder, torch.tensor([[0, 7]])) is None
    assert s5_dispatch.words(model.encoder, torch.tensor([[-1, 6]])) is None
    assert s5_dispatch.words(model.encoder, torch.zeros(1, 2, 7)) is None
    assert isinstance(s5_dispatch.words(model.encoder, torch.tensor([[0, 6]], dtype=torch.uint8)), Words)
    with torch.inference_mode(), pytest.raises(IndexError):
        model(torch.tensor([[0, 7]]))
