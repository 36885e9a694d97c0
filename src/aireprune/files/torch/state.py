"""Where the weights are inside what torch.load gives, and what of the rest is worth carrying over.

A file may hold a bare state dict, or a training checkpoint that has it under a usual key, perhaps twice wrapped. The
state of the optimiser has the shapes of the unpruned weights, and a second copy of the weights (an average) would no
longer match, so both are left out of a copy. Everything else (epoch, arguments) is carried over.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from aireprune.errors import shown
from aireprune.files.weights import Keys

WRAPPERS = ("model_state_dict", "state_dict", "model", "module", "net", "network", "weights", "params")
TRAINING = {
    "opt",
    "opt_state",
    "scheduler",
    "lr_scheduler",
    "lr_schedulers",
    "scheduler_state_dict",
    "lr_scheduler_state_dict",
    "scaler",
    "grad_scaler",
    "scaler_state_dict",
    "amp",
    "rng_state",
    "cuda_rng_state",
}
COPIES = {"ema", "model_ema", "ema_state_dict", "state_dict_ema", "ema_model"}
MAX_DEPTH = 20
MOST_VISITS = 500_000  # entries of dictionaries, counted again wherever the same one is reached


def find_state(loaded: Any) -> Keys | None:
    """The keys that lead to the state dict; empty if it is the file itself, None if there is none."""
    return _find(loaded, {}, 0)


def _find(loaded: Any, known: dict[int, Keys | None], depth: int) -> Keys | None:
    """`find_state`, with the answers for what has been looked at before, as dictionaries may hold each other."""
    if not isinstance(loaded, Mapping) or depth > MAX_DEPTH:
        return None
    if id(loaded) not in known:
        known[id(loaded)] = None
        known[id(loaded)] = _find_inside(loaded, known, depth)
    return known[id(loaded)]


def _find_inside(loaded: Mapping[Any, Any], known: dict[int, Keys | None], depth: int) -> Keys | None:
    for key in WRAPPERS:
        if key in loaded and (inner := _find(loaded[key], known, depth + 1)) is not None:
            return (key, *inner)
    if any(isinstance(value, torch.Tensor) for value in loaded.values()):
        return ()
    inside = {key: _find(value, known, depth + 1) for key, value in loaded.items() if not is_training(key, value)}
    found = [(key, *keys) for key, keys in inside.items() if keys is not None]
    found = [keys for keys in found if keys[0] not in COPIES] or found
    if len(found) == 1:
        return found[0]
    return () if found else None


def tensors(state: Mapping[Any, Any]) -> Iterator[tuple[Keys, torch.Tensor]]:
    """Every tensor of a state dict with the keys that lead to it (one key, unless modules are nested).

    ValueError if a dictionary holds itself, or the same ones are found along too many ways.
    """
    visits = 0
    waiting: list[tuple[Keys, Mapping[Any, Any], frozenset[int]]] = [((), state, frozenset())]
    while waiting:
        where, node, above = waiting.pop()
        if id(node) in above:
            raise ValueError(f"{shown('.'.join(map(str, where)))} holds itself")
        inner: list[tuple[Keys, Mapping[Any, Any], frozenset[int]]] = []
        for key, value in node.items():
            visits += 1
            if visits > MOST_VISITS:
                raise ValueError(f"it holds more than {MOST_VISITS} entries")
            if isinstance(value, torch.Tensor):
                yield (*where, key), value
            elif isinstance(value, Mapping) and len(where) < MAX_DEPTH and not is_training(key, value):
                inner.append(((*where, key), value, above | {id(node)}))
        waiting += reversed(inner)


def is_training(key: Any, value: Any) -> bool:
    """Whether an entry is the state of an optimiser, a schedule or a random number generator."""
    if isinstance(value, Mapping) and "param_groups" in value:
        return True
    return isinstance(key, str) and (key in TRAINING or "optim" in key.lower()) and not isinstance(value, torch.Tensor)


def carried(loaded: Any, keys: Keys, state: Any, dropped: list[str]) -> Any:
    """`loaded` with another state dict at `keys`, without what is not carried over; its names go to `dropped`."""
    result = copy.copy(loaded if keys else state)
    for key in list(result):
        if key not in keys[:1] and (is_training(key, result[key]) or (keys and key in COPIES)):
            del result[key]
            dropped.append(str(key))
    if keys:
        result[keys[0]] = carried(loaded[keys[0]], keys[1:], state, dropped)
    return result
