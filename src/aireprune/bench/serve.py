"""Language models on a CPU: reading a prompt and decoding, one text, by everything that people use.

Models have the shape of Mamba-130M and Mamba2-130M, dense and with a quarter of the states, and random weights. All that is
compared takes turns within one run; a turn of decoding is several tokens.
"""

from __future__ import annotations

import copy
import gc
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.bench.mamba import STATES, transformers_model
from aireprune.errors import AireError
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.exports.trials import relative
from aireprune.extras import is_installed
from aireprune.models.accelerate import accelerate
from aireprune.models.decoding.decoder import Decoder
from aireprune.models.decoding.fused import FusedDecoder, make_program
from aireprune.pruning.source import open_module

FAMILIES = tuple(STATES)
STOCK, ACCELERATED, SINGLE, EIGHT = "transformers", "accelerate", "generate", "generate, int8"
LLAMA, LLAMA_EIGHT = "llama.cpp F32", "llama.cpp Q8_0"
OURS = {STOCK: SINGLE, ACCELERATED: SINGLE, LLAMA: SINGLE, LLAMA_EIGHT: EIGHT}  # what each is compared with
FILES = {LLAMA: "f32", LLAMA_EIGHT: "q8_0"}
KEPT = 4  # one of so many states is in the pruned model
DECODED = 8  # tokens of a turn


@dataclass(frozen=True, kw_only=True)
class ServeSize:
    """length: tokens of the prompt."""

    length: int
    layers: int


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Begin anew with tokens (L,), go on by one token: both give the logits (vocabulary,) of what follows."""

    begin: Callable[[np.ndarray], np.ndarray]
    step: Callable[[int], np.ndarray]


def bench_serve(families: tuple[str, ...], size: ServeSize, repeats: int, prompts: int) -> dict[str, Any]:
    """Median seconds of a prompt (in `prompts` rounds) and of a token, ratios as (median, quartiles), and differences.

    `times ours`: how many times longer it takes than `generate` with weights of that kind. `difference`: of logits after
    the prompt and after a token more, the largest from those of stock transformers, relative to the largest of them.
    """
    if not is_installed("transformers"):
        raise AireError("The models need transformers: pip install 'aireprune[hf]'.")
    missing = absent()
    found: dict[str, Any] = {}
    for family in families:
        for states in (STATES[family], STATES[family] // KEPT):
            with torch.no_grad(), engines(transformers_model(family, size.layers, states), missing) as running:
                measured = _measured(running, size.length, repeats, prompts)
            found[f"{family}, N {states}"] = {"family": family, "states": states, **measured}
            gc.collect()
    about = {"length": size.length, "layers": size.layers, "threads": torch.get_num_threads()}
    return {**about, "absent": missing, "models": found}


def absent() -> dict[str, str]:
    """What cannot be measured here, and why."""
    for library in ("llama_cpp", "gguf"):
        if not is_installed(library):
            why = f"{library} is not installed: pip install 'aireprune[serve]'"
            return dict.fromkeys(FILES, why)
    return {}


@contextmanager
def engines(stock: nn.Module, missing: dict[str, str]) -> Iterator[dict[str, Engine]]:
    """All that decode with the weights of a model."""
    shared = {id(tensor): tensor for tensor in (*stock.parameters(), *stock.buffers())}
    fast = accelerate(copy.deepcopy(stock, shared))
    found = {STOCK: _forward(stock), ACCELERATED: _forward(fast)}
    for name, weights in ((SINGLE, "float32"), (EIGHT, "int8")):
        found[name] = _ours(FusedDecoder(fast, make_program(fast, weights)))
    with ExitStack() as opened, tempfile.TemporaryDirectory() as folder:
        for name, weights in FILES.items():
            if name not in missing:
                found[name] = _llama(stock, Path(folder) / f"{weights}.gguf", weights, opened)
        yield found


def _forward(model: Any) -> Engine:
    """The model's own forward pass with its caches."""
    held: dict[str, Any] = {}

    def run(tokens: Tensor, cache: Any) -> np.ndarray:
        out = model(tokens, cache_params=cache, use_cache=True, logits_to_keep=1)
        held["cache"] = out.cache_params
        logits: np.ndarray = out.logits[0, -1].numpy()
        return logits

    return Engine(
        begin=lambda tokens: run(torch.from_numpy(tokens)[None], None),
        step=lambda token: run(torch.tensor([[token]]), held["cache"]),
    )


def _ours(decoder: Decoder) -> Engine:
    return Engine(
        begin=lambda tokens: decoder.prefill(torch.from_numpy(tokens)[None])[0].numpy().copy(),
        step=lambda token: decoder.step(torch.tensor([token]))[0].numpy().copy(),
    )


def _llama(model: Any, path: Path, weights: str, opened: ExitStack) -> Engine:
    """The model as a GGUF file, in llama.cpp."""
    from aireprune.exports.gguf.running import LlamaCpp
    from aireprune.exports.gguf.write import write_gguf

    write_gguf(open_module(model), path, weights, {})
    session = opened.enter_context(LlamaCpp(path, model.config.vocab_size, torch.get_num_threads()))
    return Engine(begin=session.begin, step=lambda token: session.go_on(np.array([token])))


def _measured(running: dict[str, Engine], length: int, repeats: int, prompts: int) -> dict[str, Any]:
    tokens = np.random.default_rng(0).integers(1, 1000, length)
    answers = {name: np.stack([engine.begin(tokens), engine.step(7)]) for name, engine in running.items()}

    def reading(engine: Engine) -> Callable[[], object]:
        return lambda: engine.begin(tokens)

    def decoding(engine: Engine) -> Callable[[], object]:
        return lambda: [engine.step(token) for token in range(DECODED)]

    read = take_turns({name: reading(engine) for name, engine in running.items()}, prompts)
    spent = take_turns({name: decoding(engine) for name, engine in running.items()}, repeats)
    return {
        "prefill": _compared(read),
        "decode": _compared({name: seconds / DECODED for name, seconds in spent.items()}),
        "difference": {name: relative(found, answers[STOCK]) for name, found in answers.items() if name != STOCK},
    }


def _compared(times: dict[str, np.ndarray]) -> dict[str, Any]:
    ratios = {name: speedup(times[name], times[ours]) for name, ours in OURS.items() if name in times}
    return {"seconds": medians(times), "times ours": ratios}
