"""What may be drawn."""

from __future__ import annotations

import torch

from aireprune.models.decoding.request import GenerateRequest
from aireprune.models.decoding.sampling import Sampler, among_likeliest

LOGITS = torch.log(torch.tensor([[0.1, 0.5, 0.15, 0.25]]))


def drawable(top_k: int, top_p: float) -> list[int]:
    return torch.isfinite(among_likeliest(LOGITS, top_k, top_p))[0].nonzero()[:, 0].tolist()


def test_the_likeliest_tokens():
    assert drawable(0, 1.0) == [0, 1, 2, 3]
    assert drawable(2, 1.0) == [1, 3]
    assert drawable(0, 0.4) == [1]
    assert drawable(0, 0.7) == [1, 3]
    assert drawable(1, 0.9) == [1]


def test_draws_have_the_probabilities_of_the_logits():
    sampler = Sampler(GenerateRequest(temperature=1.0, seed=0))
    drawn = sampler.next(LOGITS.expand(20_000, 4))
    share = torch.bincount(drawn, minlength=4) / len(drawn)
    torch.testing.assert_close(share, LOGITS[0].exp(), rtol=0, atol=0.02)


def test_temperature_0_takes_the_likeliest():
    assert Sampler(GenerateRequest()).next(LOGITS).tolist() == [1]
