"""One sequence of transformers' Mamba or Mamba-2: a text through the model with its fast scans, then a kernel per token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.kernels.decode import DecodeProgram, DecodeWeights, decoder_run, make_decode_program
from aireprune.kernels.numba.compile import threads
from aireprune.kernels.numba.decode_codes import MAMBA, MAMBA2
from aireprune.models.accelerate import fast_scans
from aireprune.models.decoding.decoder import Decoder
from aireprune.models.decoding.layers import mamba2_layer, mamba_layer, state_shapes
from aireprune.models.evaluation import evaluation_mode
from aireprune.models.recurrence.watch import Watch

MODELS = {"MambaForCausalLM": "MambaMixer", "Mamba2ForCausalLM": "Mamba2Mixer"}
COMPARED = 4  # tokens of the prompt after which logits of rounded weights are compared


class FusedDecoder(Decoder):
    """A text is read by the model itself, what follows it is decoded by a program of its weights (`program_for`)."""

    def __init__(self, model: nn.Module, program: DecodeProgram):
        self._model: Any = model
        self._program = program
        self._memory = torch.zeros(self._program.memory)
        self._logits = torch.zeros(1, int(self._program.model["vocabulary"][0]))
        self._run = decoder_run(self._program, self._memory.numpy(), self._logits.numpy()[0])

    def prefill(self, tokens: Tensor) -> Tensor:
        with self._reading():
            if self._program.kind == "float32":
                logits, cache = self._read(tokens, None, 1)
            else:
                logits, cache = self._compare(tokens)
        self._remember(cache)
        return logits[:, -1]

    def step(self, tokens: Tensor) -> Tensor:
        token, known = int(tokens[0]), self._logits.shape[1]
        if not 0 <= token < known:
            raise AireError(f"Token {token} is not one of the model's {known}.")
        self._run(token)
        return self._logits

    def _compare(self, tokens: Tensor) -> tuple[Tensor, Any]:
        """The last logits and caches of a text, whose last tokens are also decoded with rounded weights."""
        cut, cache = max(tokens.shape[1] - COMPARED, 0), None
        self._memory.zero_()
        if cut:
            _, cache = self._read(tokens[:, :cut], None, 1)
            self._remember(cache)
        found = torch.cat([self.step(tokens[:, at]).clone() for at in range(cut, tokens.shape[1])])
        wanted, cache = self._read(tokens[:, cut:], cache, COMPARED)
        self.logit_error = float((found - wanted[0]).abs().max() / wanted.abs().max().clamp(min=1e-30))
        return wanted, cache

    def _read(self, tokens: Tensor, cache: Any, count: int) -> tuple[Tensor, Any]:
        """The last `count` logits, and the caches after the tokens."""
        out = self._model(tokens, cache_params=cache, use_cache=True, logits_to_keep=count)
        return out.logits.float(), out.cache_params

    def _remember(self, cache: Any) -> None:
        """The caches, in the order of the kernels."""
        layers = self._program.layers
        for number, layer in enumerate(layers):
            inputs = cache.get_conv_state(number, state_idx=0)[0, :, 1:].T
            state = cache.get_recurrent_state(number, state_idx=0)[0]
            state = state.T if layers.dtype == MAMBA else state
            for at, values in ((int(layer["window_at"]), inputs), (int(layer["state_at"]), state)):
                self._memory[at : at + values.numel()].view(values.shape).copy_(values)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with evaluation_mode(self._model), fast_scans(self._model), torch.no_grad():
            yield


def can_fuse(model: nn.Module, weights: str) -> bool:
    """Whether the kernels compute what this model does: its parts are stock, on a CPU, in a precision that they read."""
    if type(model).__module__.split(".")[0] != "transformers" or type(model).__name__ not in MODELS:
        return False
    parts = list(model.modules())
    mixers: list[Any] = [part for part in parts if type(part).__name__ == MODELS[type(model).__name__]]
    precision = {torch.float32} if weights == "float32" else {torch.float32, torch.bfloat16, torch.float16}
    return (
        all(type(p) is nn.Parameter and p.device.type == "cpu" and p.dtype in precision for p in model.parameters())
        and all(type(part).__module__.startswith(("torch.nn.modules.", "transformers.")) for part in parts)
        and not any(part._forward_hooks or part._forward_pre_hooks for part in parts)
        and all(mixer.activation in ("silu", "swish") for mixer in mixers)
        and model.get_output_embeddings().bias is None  # type: ignore[operator]
    )


_PROGRAMS: WeakKeyDictionary[nn.Module, dict[tuple[str, int], tuple[DecodeProgram, Watch]]] = WeakKeyDictionary()


def program_for(model: nn.Module, weights: str) -> DecodeProgram:
    """The model for the kernels, kept until its weights change.

    weights: 'float32', read where the model has them, or 'int8', rounded copies.
    """
    kept = _PROGRAMS.setdefault(model, {})
    found = kept.get((weights, threads()))
    if found is None or not found[1].unchanged():
        found = kept[weights, threads()] = make_program(model, weights), Watch(model)
    return found[0]


@torch.no_grad()
def make_program(model: Any, weights: str) -> DecodeProgram:
    gathered, memory, layers = DecodeWeights(weights), 0, []
    backbone, mamba = model.backbone, type(model).__name__ == "MambaForCausalLM"
    for block in backbone.layers:
        inputs, state = state_shapes(block.mixer)
        places = {"window_at": memory, "state_at": memory + int(np.prod(inputs))}
        memory = places["state_at"] + int(np.prod(state))
        layer = mamba_layer(block.mixer, gathered) if mamba else mamba2_layer(block.mixer, gathered)
        layers.append({**places, **layer, "norm_at": gathered.add(block.norm.weight, block.norm.variance_epsilon)})
    norm, groups = backbone.norm_f, max((layer.get("norm_groups", 1) for layer in layers), default=1)
    vocabulary, features = backbone.embeddings.weight.shape
    fields = {
        **gathered.matrix("embedding", backbone.embeddings.weight),
        **gathered.matrix("head", model.get_output_embeddings().weight),
        "features": features,
        "vocabulary": vocabulary,
        "norm_at": gathered.add(norm.weight, norm.variance_epsilon),
        "parts": -(-threads() // groups) * groups,
    }
    return make_decode_program(fields, MAMBA if mamba else MAMBA2, layers, gathered, memory)
