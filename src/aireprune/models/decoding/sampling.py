"""The next token from logits: the likeliest one, or one that is drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from aireprune.models.decoding.request import GenerateRequest


class Sampler:
    """Draws repeat themselves if the request names a seed."""

    def __init__(self, request: GenerateRequest):
        self._request, self._generator = request, torch.Generator()
        if request.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(request.seed)

    def next(self, logits: Tensor) -> Tensor:
        """Logits (b, tokens) -> tokens (b,)."""
        if self._request.temperature == 0:
            return logits.argmax(-1)
        scaled = logits.float().cpu() / self._request.temperature
        likely = among_likeliest(scaled, self._request.top_k, self._request.top_p)
        drawn = torch.multinomial(torch.softmax(likely, -1), 1, generator=self._generator)
        return drawn[:, 0].to(logits.device)


def among_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Logits (b, tokens) with those that may not be drawn at -inf.

    top_k: only the k likeliest, 0 for all. top_p: only the likeliest that together have this share of the probability.
    """
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, -1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        before = torch.softmax(ordered, -1).cumsum(-1) - torch.softmax(ordered, -1)  # of all likelier tokens
        removed = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits = logits.masked_fill(removed, -torch.inf)
    return logits
