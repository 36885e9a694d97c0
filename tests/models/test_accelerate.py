"""`accelerate`: the same outputs, caches and gradients as the stock forward."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from foreign_models import INEXACT_CACHES, MODELS, close, decode, make_plan, prune_module
from torch import nn

from aireprune.errors import AireError
from aireprune.models.accelerate import accelerate, can_accelerate, fast_scans

TOKENS = torch.randint(1, 40, (2, 11), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", MODELS)
def test_same_outputs(name: str) -> None:
    model: Any = MODELS[name]()
    fast: Any = accelerate(copy.deepcopy(model))
    mask = torch.ones_like(TOKENS)
    mask[0, :3] = 0
    with torch.no_grad():
        close(fast(TOKENS).logits, model(TOKENS).logits)
        close(fast(TOKENS, attention_mask=mask).logits[1], model(TOKENS, attention_mask=mask).logits[1])
        close(fast(TOKENS, attention_mask=mask).logits[0, 3:], model(TOKENS, attention_mask=mask).logits[0, 3:])


@pytest.mark.parametrize("name", MODELS)
def test_same_decoding(name: str) -> None:
    model: Any = MODELS[name]()
    fast: Any = accelerate(copy.deepcopy(model))
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    with torch.no_grad():
        for prefix in (2, 7):  # shorter and longer than the convolution
            close(decode(fast, TOKENS, prefix), decode(model, TOKENS, prefix))
        if name not in INEXACT_CACHES:
            close(decode(fast, TOKENS, 7), fast(TOKENS, use_cache=False).logits)
        assert torch.equal(fast.generate(TOKENS, **options), model.generate(TOKENS, **options))


def test_several_tokens_continue_a_cache() -> None:
    fast: Any = accelerate(MODELS["mamba"]())
    with torch.no_grad():
        cache = fast(TOKENS[:, :4], use_cache=True).cache_params
        rest = fast(TOKENS[:, 4:], use_cache=True, cache_params=cache).logits
        close(rest, fast(TOKENS, use_cache=False).logits[:, 4:])


@pytest.mark.parametrize("name", ["mamba", "falcon_mamba", "jamba", "mamba2"])
def test_same_gradients(name: str) -> None:
    model: Any = MODELS[name]().train()
    fast: Any = accelerate(copy.deepcopy(model))
    for each in (model, fast):
        each(TOKENS, labels=TOKENS, use_cache=False).loss.backward()
    for (key, stock), ours in zip(model.named_parameters(), fast.parameters(), strict=True):
        if stock.grad is not None:
            scale = float(stock.grad.abs().max()) + 1e-8
            torch.testing.assert_close(ours.grad, stock.grad, atol=1e-4 * scale, rtol=1e-3, msg=key)


@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_an_accelerated_model_can_be_sent_and_copied(name: str) -> None:
    fast: Any = accelerate(MODELS[name]())
    with torch.no_grad():
        expected = fast(TOKENS).logits
        for again in (pickle.loads(pickle.dumps(fast)), copy.deepcopy(fast)):
            assert torch.equal(again(TOKENS).logits, expected)
            next(again.parameters()).zero_()  # its own weights, not the first model's
            assert not torch.equal(again(TOKENS).logits, expected)
            assert torch.equal(fast(TOKENS).logits, expected)


@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_idempotent_and_prunable(name: str) -> None:
    model = MODELS[name]()
    layers, plan = make_plan(model)
    fast = accelerate(accelerate(copy.deepcopy(model)))
    with torch.no_grad():
        expected = prune_module(model, layers, plan)(TOKENS).logits
        close(prune_module(fast, layers, plan)(TOKENS).logits, expected)
        close(accelerate(prune_module(model, layers, plan))(TOKENS).logits, expected)


def test_low_precision() -> None:
    stock: Any = MODELS["mamba"]().to(torch.bfloat16)
    fast: Any = accelerate(copy.deepcopy(stock))
    exact: Any = copy.deepcopy(stock).float()
    with torch.no_grad():
        expected, theirs, ours = exact(TOKENS).logits, stock(TOKENS).logits, fast(TOKENS).logits
    assert (ours - expected).square().mean() < 2 * (theirs - expected).square().mean()


@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_fast_for_a_while(name: str) -> None:
    model: Any = MODELS[name]()
    assert can_accelerate(model)
    fast = accelerate(copy.deepcopy(model))
    with fast_scans(model), torch.no_grad():
        assert torch.equal(model(TOKENS).logits, fast(TOKENS).logits)
        assert any("forward" in vars(module) for module in model.modules())
    assert not any("forward" in vars(module) for module in model.modules())
    with pytest.raises(IndexError), fast_scans(model):
        model(torch.tensor([[10**6]]))
    assert not any("forward" in vars(module) for module in model.modules())


def test_what_was_accelerated_before_stays_so() -> None:
    model = accelerate(MODELS["mamba"]())
    before = [vars(module).get("forward") for module in model.modules()]
    with fast_scans(model):
        pass
    assert [vars(module).get("forward") for module in model.modules()] == before
    assert any(before)


def test_unknown_model() -> None:
    assert not can_accelerate(nn.Linear(2, 2))
    with fast_scans(nn.Linear(2, 2)):
        pass
    with pytest.raises(AireError, match="no layer that can be accelerated"):
        accelerate(nn.Linear(2, 2))
