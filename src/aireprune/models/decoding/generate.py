"""Tokens that follow a text: read at once, then one token at a time from a state of constant size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.models.arrays import is_own
from aireprune.models.decoding.decoder import Decoder, ModuleDecoder, OwnDecoder
from aireprune.models.decoding.fused import MODELS, FusedDecoder, can_fuse, program_for
from aireprune.models.decoding.request import GenerateRequest
from aireprune.models.decoding.sampling import Sampler
from aireprune.models.recurrence.refusals import INTEGERS

CACHED = (*MODELS, "FalconMambaForCausalLM")  # whose forward passes take and give cache_params


@dataclass(frozen=True, kw_only=True)
class Generation:
    """tokens: the text and what follows it, (b, L + new), or (L + new,) if the text was given so. prompt: L.

    logit_error: of weights in 8 bits, the largest difference of a logit at the end of the text from the model's own,
    relative to the largest of them; None where nothing was rounded.
    """

    tokens: Tensor
    prompt: int
    logit_error: float | None = None

    @property
    def new(self) -> Tensor:
        """What follows the text, (b, new) or (new,)."""
        return self.tokens[..., self.prompt :]


def generate(model: nn.Module, tokens: Tensor, request: GenerateRequest) -> Generation:
    """Go on with texts of one length, tokens (b, L) or (L,), until all have come to a stop."""
    texts = _texts(tokens)
    decoder, sampler = decoder_for(model, len(texts), request.weights), Sampler(request)
    stop, fill = _stop(model, request)
    stop = stop.to(texts.device)
    running, found = torch.ones(len(texts), dtype=torch.bool, device=texts.device), [texts]
    logits = decoder.prefill(texts)
    for number in range(request.max_new_tokens):
        chosen = torch.where(running, sampler.next(logits), fill)
        found.append(chosen[:, None])
        if request.on_token is not None:
            request.on_token(chosen)
        running &= torch.isin(chosen, stop, invert=True)
        if number + 1 == request.max_new_tokens or not running.any():
            break
        logits = decoder.step(chosen)
    whole = torch.cat(found, 1)
    return Generation(
        tokens=whole[0] if tokens.ndim == 1 else whole, prompt=texts.shape[1], logit_error=decoder.logit_error
    )


def _texts(tokens: Tensor) -> Tensor:
    """(b, L), refused if there is nothing to go on from."""
    if tokens.dtype not in INTEGERS or tokens.ndim not in (1, 2):
        raise AireError(
            f"tokens are integers of shape (batch, length) or (length,); found {tuple(tokens.shape)} of {tokens.dtype}."
        )
    if not tokens.numel():
        raise AireError("There are no tokens to go on from: give at least one, such as the one that begins a text.")
    return tokens.long().reshape(-1, tokens.shape[-1])


def _stop(model: Any, request: GenerateRequest) -> tuple[Tensor, int]:
    """Tokens that end a text, and the one that fills it up while others go on."""
    config = getattr(model, "generation_config", None)
    given = getattr(config, "eos_token_id", None) if request.stop is None else request.stop
    stop = [] if given is None else [given] if isinstance(given, int) else list(given)
    fill = getattr(config, "pad_token_id", None)
    return torch.tensor(stop, dtype=torch.long), fill if fill is not None else stop[0] if stop else 0


def decoder_for(model: nn.Module, batch: int, weights: str) -> Decoder:
    """Who goes on with so many texts."""
    if is_own(model):
        return _own(model, weights)
    if type(model).__name__ not in CACHED or type(model).__module__.split(".")[0] != "transformers":
        raise AireError(
            f"generate takes transformers' {', '.join(CACHED)} and our Mamba language models; this is a "
            f"{type(model).__name__}. transformers' own models have a method generate, which is faster after accelerate."
        )
    if batch > 1 or not can_fuse(model, weights):
        if weights != "float32":
            raise AireError(
                f"weights={weights!r} serves one text at a time, by an unchanged Mamba or Mamba-2 of transformers on a CPU."
            )
        return ModuleDecoder(model)
    return FusedDecoder(model, program_for(model, weights))


def _own(model: Any, weights: str) -> Decoder:
    if model.config.mode != "tokens":
        raise AireError(
            f"The model answers in mode {model.config.mode!r}; generate takes language models, mode 'tokens'."
        )
    if weights != "float32":
        raise AireError(
            f"weights={weights!r} is for transformers' Mamba and Mamba-2. Our own language models become such a folder with "
            "aire convert."
        )
    return OwnDecoder(model)
