"""New state counts written into a checkpoint's configuration.

Our own and the official S5 configuration list them under `states`, with the largest under `n` or its kin. Hugging Face
configurations have one number (state_size and its kin); where layers differ, transformers' own per-layer configuration
says so (per_layer_config, {layer: {"state_size": 4}}), and the plain number is the largest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aireprune.errors import AireError, shown

STATE_SIZE_KEYS = ("state_size", "mamba_d_state", "ssm_state_size")
PLAIN_KEYS = (
    "n",
    "d_state",
    "ssm_size",
    "ssm_size_base",
)  # in our configurations, and in the arguments of the official S5


def resized_config(
    kind: str, config: Mapping[str, Any], names: Sequence[str], sizes: Sequence[int]
) -> dict[str, Any] | None:
    """The configuration for layers `names` with these sizes; None if the checkpoint has no configuration to change."""
    if not config:
        return None
    if kind != "huggingface":
        return {**config, "states": list(sizes)}
    nested = next((key for key in ("text_config",) if isinstance(config.get(key), Mapping)), None)
    if nested is not None and not any(key in config for key in STATE_SIZE_KEYS):
        return {**config, nested: resized_config(kind, config[nested], names, sizes)}
    # mamba_ssm's configuration: d_state lives in ssm_cfg, 16 (Mamba) or 128 (Mamba-2) if it is not there
    if "ssm_cfg" in config and not any(key in config for key in STATE_SIZE_KEYS):
        varied = {str(layer_number(name)): {"d_state": size} for name, size in zip(names, sizes, strict=True)}
        per_layer = {"per_layer_config": varied} if len(set(sizes)) > 1 else {}
        return {**config, "ssm_cfg": {**_entries(config, "ssm_cfg"), "d_state": max(sizes)}, **per_layer}
    key = next((key for key in STATE_SIZE_KEYS if key in config), "state_size")
    layers = _entries(config, "per_layer_config")
    overrides = {
        str(number): {name: value for name, value in _entries(layers, number).items() if name != key}
        for number in layers
    }
    if len(set(sizes)) > 1:
        for name, size in zip(names, sizes, strict=True):
            overrides.setdefault(str(layer_number(name)), {})[key] = size
    overrides = {number: layer for number, layer in overrides.items() if layer}
    changed = {name: value for name, value in config.items() if name != "per_layer_config"}
    changed[key] = max(sizes)
    return {**changed, "per_layer_config": overrides} if overrides else changed


def _entries(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of a configuration that has entries of its own; none if it is not there."""
    found = config.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise AireError(f"{shown(key)} in the configuration is {shown(repr(found))}; expected an object with entries.")
    return found or {}


def with_plain_size(config: Mapping[str, Any], old: int, new: int) -> dict[str, Any]:
    """The configuration with its one number for all layers, which counts each of `old` states once or (pairs) twice.

    A number that says something else stays. blocks, which the official S5 divides it into, is 1 where they would not fit.
    """
    changed = dict(config)
    for key in PLAIN_KEYS:
        factor = next((k for k in (1, 2) if old and config.get(key) == k * old), None)
        if factor is not None and new != old:
            changed[key] = factor * new
            blocks = config.get("blocks")
            if type(blocks) is int and blocks > 1 and new % blocks:
                changed["blocks"] = 1
    return changed


def layer_number(name: str) -> int:
    """The number of a layer in its stack, from its name (backbone.layers.3.mixer -> 3)."""
    found = re.search(r"\b(?:layers|h|blocks)\.(\d{1,9})\b", name)
    if found is None:
        raise AireError(
            f"Layer {shown(name)} has no number in its name, so its size cannot be written into config.json."
        )
    return int(found[1])
