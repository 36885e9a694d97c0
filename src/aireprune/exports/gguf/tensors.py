"""The tensors of transformers' Mamba and Mamba-2 under the names and in the shapes that llama.cpp reads.

token_embd, output_norm, output (left out where it is tied)      blk.i.attn_norm, ssm_in, ssm_conv1d, ssm_dt, ssm_out
blk.i.ssm_a = -exp(A_log), ssm_d      Mamba: ssm_x      Mamba-2: ssm_norm (groups, channels), ssm_a and ssm_d (heads, 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aireprune.errors import AireError
from aireprune.families.mamba2 import PROJECTIONS
from aireprune.pruning.source import FileSource, ModuleSource

FAMILIES = ("mamba", "mamba2")  # model_type, and what llama.cpp calls the architecture
EMBEDDING, HEAD = "backbone.embeddings.weight", "lm_head.weight"


def architecture(source: FileSource | ModuleSource) -> str:
    """mamba or mamba2; an error if llama.cpp has no place for something that the model has."""
    config, name = source.config, source.name
    kind = config.get("model_type")
    if kind not in FAMILIES or EMBEDDING not in source.arrays.shapes:
        raise AireError(
            f"{name} is not a language model of transformers' Mamba or Mamba-2, of which GGUF files are made. Our own Mamba "
            "language models become one with aire convert."
        )
    _require_one_size(source)
    inner, hidden = inner_size(source), int(config["hidden_size"])
    for here, what in (
        (inner != 2 * hidden, f"{inner} channels for a width of {hidden}, where llama.cpp expects twice as many"),
        (bool(config.get("use_bias")), "biases of its projections (use_bias)"),
        (config.get("hidden_act", "silu") not in ("silu", "swish"), f"activation {config.get('hidden_act')}"),
        (_limits(config), "a limit on its steps (time_step_limit)"),
        (any(key.endswith(PROJECTIONS) for key in source.arrays.shapes), "projected gates"),
    ):
        if here:
            raise AireError(f"{name} has {what}: llama.cpp has no place for that.")
    return str(kind)


def _limits(config: Mapping[str, Any]) -> bool:
    low, high = config.get("time_step_limit") or (0.0, float("inf"))
    return config.get("model_type") == "mamba2" and (float(low) > 0 or float(high) != float("inf"))


def _require_one_size(source: FileSource | ModuleSource) -> None:
    sizes = sorted({layer.states // layer.groups for layer in source.layers})
    if len(sizes) > 1:
        raise AireError(
            f"{source.name} has layers of {', '.join(map(str, sizes))} states, and llama.cpp has one size for all of a "
            "model. Prune it with layout='uniform' (or 'padded') instead."
        )


def inner_size(source: FileSource | ModuleSource) -> int:
    return source.arrays.shapes["backbone.layers.0.mixer.out_proj.weight"][1]


def tensors(source: FileSource | ModuleSource, kind: str) -> Iterator[tuple[str, np.ndarray]]:
    """Name and values, in single precision, one after the other."""
    yield "token_embd.weight", _read(source, EMBEDDING)
    yield "output_norm.weight", _read(source, "backbone.norm_f.weight")
    if HEAD in source.arrays.shapes and not np.array_equal(_read(source, HEAD), _read(source, EMBEDDING)):
        yield "output.weight", _read(source, HEAD)
    for number in range(len(source.layers)):
        layer, block = f"backbone.layers.{number}", f"blk.{number}"
        yield f"{block}.attn_norm.weight", _read(source, f"{layer}.norm.weight")
        yield from _mixer(source, f"{layer}.mixer.", f"{block}.", kind)


def _mixer(source: FileSource | ModuleSource, mixer: str, block: str, kind: str) -> Iterator[tuple[str, np.ndarray]]:
    def read(name: str) -> np.ndarray:
        return _read(source, mixer + name)

    taps = read("conv1d.weight")[:, 0]
    biased = f"{mixer}conv1d.bias" in source.arrays.shapes
    column = (-1, 1) if kind == "mamba2" else None
    a, d = -np.exp(read("A_log")), read("D")
    yield f"{block}ssm_in.weight", read("in_proj.weight")
    yield f"{block}ssm_conv1d.weight", taps
    yield f"{block}ssm_conv1d.bias", read("conv1d.bias") if biased else np.zeros(len(taps), np.float32)
    yield f"{block}ssm_a", a if column is None else a.reshape(column)
    yield f"{block}ssm_d", d if column is None else d.reshape(column)
    yield f"{block}ssm_out.weight", read("out_proj.weight")
    if kind == "mamba":
        yield f"{block}ssm_x.weight", read("x_proj.weight")
        yield f"{block}ssm_dt.weight", read("dt_proj.weight")
        yield f"{block}ssm_dt.bias", read("dt_proj.bias")
    else:
        yield f"{block}ssm_dt.bias", read("dt_bias")
        yield f"{block}ssm_norm.weight", read("norm.weight").reshape(int(source.config["n_groups"]), -1)


def _read(source: FileSource | ModuleSource, name: str) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(source.arrays[name]).astype(np.float32))
