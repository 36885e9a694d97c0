"""What is asked of `generate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from torch import Tensor

from aireprune.errors import AireError
from aireprune.kernels.decode import KINDS

OnToken = Callable[[Tensor], object]


class GenerateChoices(TypedDict, total=False):
    """Keyword arguments of `generate` besides the model and its tokens."""

    max_new_tokens: int
    temperature: float
    top_k: int
    top_p: float
    seed: int | None
    stop: int | Sequence[int] | None
    weights: str
    on_token: OnToken | None


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """temperature 0: the likeliest token. stop None: what the model's configuration says. weights: one of KINDS."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    stop: int | Sequence[int] | None = None
    weights: str = "float32"
    on_token: OnToken | None = None


def make_generate_request(choices: GenerateChoices) -> GenerateRequest:
    """Refused here if odd."""
    known = GenerateChoices.__optional_keys__
    unknown = sorted(set(choices) - known)
    if unknown:
        raise AireError(f"There is no argument {unknown[0]}=. Arguments: {', '.join(sorted(known))}.")
    request = GenerateRequest(**choices)
    if request.weights not in KINDS:
        raise AireError(f"weights={request.weights!r} is not known; there are {', '.join(map(repr, KINDS))}.")
    if request.max_new_tokens < 1:
        raise AireError(f"max_new_tokens={request.max_new_tokens} is no number of tokens to generate.")
    if request.temperature < 0:
        raise AireError(f"temperature={request.temperature} is negative; 0 takes the likeliest token.")
    if request.top_k < 0:
        raise AireError(f"top_k={request.top_k} is negative; 0 lets all tokens be drawn.")
    if not 0 < request.top_p <= 1:
        raise AireError(f"top_p={request.top_p} is no share of the probability: it lies above 0 and is at most 1.")
    return request
