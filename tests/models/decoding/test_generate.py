"""`generate`: the tokens of transformers' own greedy decoding, whoever computes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from foreign_models import MODELS, make_plan, prune_module, transformers_model
from small_models import mamba

import aireprune
from aireprune.errors import AireError
from aireprune.models.decoding.decoder import ModuleDecoder, OwnDecoder
from aireprune.models.decoding.fused import FusedDecoder
from aireprune.models.decoding.generate import decoder_for
from aireprune.models.mamba import MambaModel
from aireprune.models.mamba import initialize as initialize_mamba
from aireprune.models.mamba_config import MambaConfig

TOKENS = torch.randint(1, 40, (2, 9), generator=torch.Generator().manual_seed(2))
GREEDY = {"max_new_tokens": 20, "do_sample": False}


def own() -> MambaModel:
    config = MambaConfig(d_input=12, d_output=12, d_model=8, layers=2, d_state=4, mode="tokens", norm="rms")
    return initialize_mamba(MambaModel(config), 1).eval()


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("name", ["mamba", "mamba2", "falcon_mamba"])
def test_the_tokens_of_transformers(name: str, pruned: bool) -> None:
    model: Any = MODELS[name]()
    model = prune_module(model, *make_plan(model)) if pruned else model
    for text in (TOKENS[:1], TOKENS[:1, :1], TOKENS):
        assert torch.equal(aireprune.generate(model, text, max_new_tokens=20).tokens, model.generate(text, **GREEDY))


@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_who_decodes(name: str) -> None:
    model = MODELS[name]()
    assert isinstance(decoder_for(model, 1, "float32"), FusedDecoder)
    assert isinstance(decoder_for(model, 2, "float32"), ModuleDecoder)
    assert isinstance(decoder_for(model.bfloat16(), 1, "float32"), ModuleDecoder)
    assert isinstance(decoder_for(model, 1, "int8"), FusedDecoder)
    assert isinstance(decoder_for(own(), 1, "float32"), OwnDecoder)


def test_our_own_model_goes_on_as_its_forward_pass_says() -> None:
    model, text = own(), TOKENS % 12
    found = aireprune.generate(model, text, max_new_tokens=6)
    for length in range(text.shape[1], found.tokens.shape[1]):
        with torch.no_grad():
            expected = model(found.tokens[:, :length])[:, -1].argmax(-1)
        assert torch.equal(found.tokens[:, length], expected)


def test_a_text_without_a_batch_and_what_is_new() -> None:
    found = aireprune.generate(MODELS["mamba"](), TOKENS[0], max_new_tokens=5, stop=())
    assert found.tokens.shape == (14,)
    assert torch.equal(found.tokens[:9], TOKENS[0])
    assert torch.equal(found.new, found.tokens[9:])
    assert found.logit_error is None


def test_it_stops_and_tells_tokens_as_they_come() -> None:
    model, told = MODELS["mamba2"](), []
    free = aireprune.generate(model, TOKENS[0], max_new_tokens=12, stop=())
    last = int(free.new[4])
    until = int((free.new == last).nonzero()[0, 0]) + 1
    found = aireprune.generate(
        model, TOKENS[0], max_new_tokens=12, stop=last, on_token=lambda token: told.append(int(token[0]))
    )
    assert torch.equal(found.new, free.new[:until])
    assert told == found.new.tolist()


def test_draws_repeat_themselves_with_a_seed() -> None:
    model, how = MODELS["mamba"](), {"max_new_tokens": 12, "temperature": 2.0, "stop": ()}
    first, again, other = (aireprune.generate(model, TOKENS[0], seed=seed, **how).new for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_changed_weights_are_seen() -> None:
    """Also those that the kernels have copies of, and rounded ones."""
    model: Any = MODELS["mamba"]()
    for weights in ("float32", "int8"):
        decoder_for(model, 1, weights).prefill(TOKENS[:1])
        with torch.no_grad():
            for block in model.backbone.layers:
                block.mixer.A_log.add_(1.0)
                block.mixer.out_proj.weight.mul_(-1)
        decoder = decoder_for(model, 1, weights)
        decoder.prefill(TOKENS[:1, :-1])
        found = decoder.step(TOKENS[:1, -1])
        with torch.no_grad():
            expected = model(TOKENS[:1]).logits[:, -1]
        assert (found - expected).abs().max() < (1e-4 if weights == "float32" else 0.1) * expected.abs().max()


@pytest.mark.parametrize(
    ("model", "tokens", "choices", "message"),
    [
        (MODELS["jamba"], TOKENS, {}, "this is a JambaForCausalLM"),
        (MODELS["mamba"], TOKENS, {"weights": "int8"}, "serves one text at a time"),
        (MODELS["mamba"], TOKENS[:, :0], {}, "no tokens to go on from"),
        (MODELS["mamba"], TOKENS.float(), {}, "tokens are integers"),
        (own, TOKENS % 12, {"weights": "int8"}, "aire convert"),
        (mamba, TOKENS % 2, {}, "mode 'pool'"),
    ],
)
def test_refusals(model: Any, tokens: torch.Tensor, choices: Any, message: str) -> None:
    with pytest.raises(AireError, match=message):
        aireprune.generate(model(), tokens, **choices)


def test_a_token_that_the_model_does_not_know() -> None:
    decoder = decoder_for(transformers_model("Mamba", state_size=4), 1, "float32")
    decoder.prefill(TOKENS[:1])
    with pytest.raises(AireError, match="Token 40 is not one of the model's 40"):
        decoder.step(torch.tensor([40]))


def test_a_model_is_not_kept_alive() -> None:
    import gc
    import weakref

    model = MODELS["mamba"]()
    aireprune.generate(model, TOKENS[0], max_new_tokens=2)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
