"""A sharded Mamba checkpoint of random weights, as large as a real one, to measure what pruning it costs.

By default it has the names, shapes and sizes of Mamba-2.8B. Its large matrices repeat one block of random numbers, whose
values play no role; the arrays of the state space layers are those of an untrained model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from aireprune.files.dtypes import encode
from aireprune.files.safetensors.header import Entry, header_bytes
from aireprune.files.writing.atomic import atomic_folder

FORMATS = {"float16": ("F16", 2), "float32": ("F32", 4), "bfloat16": ("BF16", 2)}  # safetensors code, bytes
BLOCK = 1 << 20  # elements of the random block that large matrices repeat

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class MambaSize:
    """Sizes of a Mamba language model; n: states per channel, conv: width of the convolution."""

    layers: int = 64
    d_model: int = 2560
    d_inner: int = 5120
    n: int = 16
    dt_rank: int = 160
    vocab: int = 50280
    conv: int = 4


def make_mamba_checkpoint(
    folder: Path,
    size: MambaSize,
    dtype: str = "float16",
    shard_bytes: int = 2_000_000_000,
    seed: int = 0,
    overwrite: bool = False,
) -> int:
    """Write a Hugging Face Mamba checkpoint in shards of about `shard_bytes`; returns the bytes of its tensors."""
    values, shapes = _Values(size.n, dtype, seed), _shapes(size)
    shards = list(_split(shapes, values.itemsize, shard_bytes))
    with atomic_folder(folder, overwrite) as temporary:
        weight_map: dict[str, str] = {}
        for number, shard in enumerate(shards, 1):
            file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            weight_map.update(dict.fromkeys(shard, file))
            _write_shard(temporary / file, shard, values)
        total = sum(prod(shape) * values.itemsize for shape in shapes.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (temporary / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
        (temporary / "config.json").write_text(json.dumps(_config(size, dtype), indent=2))
    return total


def _shapes(size: MambaSize) -> Shapes:
    shapes: Shapes = {"backbone.embeddings.weight": (size.vocab, size.d_model)}
    for layer in range(size.layers):
        prefix = f"backbone.layers.{layer}."
        shapes |= {
            prefix + "mixer.A_log": (size.d_inner, size.n),
            prefix + "mixer.D": (size.d_inner,),
            prefix + "mixer.conv1d.bias": (size.d_inner,),
            prefix + "mixer.conv1d.weight": (size.d_inner, 1, size.conv),
            prefix + "mixer.dt_proj.bias": (size.d_inner,),
            prefix + "mixer.dt_proj.weight": (size.d_inner, size.dt_rank),
            prefix + "mixer.in_proj.weight": (2 * size.d_inner, size.d_model),
            prefix + "mixer.out_proj.weight": (size.d_model, size.d_inner),
            prefix + "mixer.x_proj.weight": (size.dt_rank + 2 * size.n, size.d_inner),
            prefix + "norm.weight": (size.d_model,),
        }
    return shapes | {"backbone.norm_f.weight": (size.d_model,)}


def _split(shapes: Shapes, itemsize: int, shard_bytes: int) -> Iterator[Shapes]:
    """The tensors in order, in shards of at most `shard_bytes` unless a single tensor is larger."""
    shard: Shapes = {}
    filled = 0
    for name, shape in shapes.items():
        if shard and filled + prod(shape) * itemsize > shard_bytes:
            yield shard
            shard, filled = {}, 0
        shard[name] = shape
        filled += prod(shape) * itemsize
    yield shard


class _Values:
    """What the tensors hold, in the bytes of the file's format."""

    def __init__(self, n: int, dtype: str, seed: int):
        self.code, self.itemsize = FORMATS[dtype]
        self.n, self.random = n, np.random.default_rng(seed)
        self.block = encode(self.random.normal(0, 0.02, BLOCK).astype(np.float32), self.code, "block")

    def write(self, name: str, entry: Entry, out: BinaryIO) -> None:
        values = self._of_the_layer(name, entry.shape)
        if values is not None:
            out.write(encode(values, self.code, name).data)
            return
        for start in range(0, entry.size, self.block.size):
            out.write(self.block[: entry.size - start].data)

    def _of_the_layer(self, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
        """Values of an untrained Mamba where they matter; None for large matrices."""
        if name.endswith("A_log"):
            values = np.broadcast_to(np.log(np.arange(1, self.n + 1)), shape)
        elif name.endswith("dt_proj.bias"):
            step = np.exp(self.random.uniform(np.log(1e-3), np.log(1e-1), shape))
            values = step + np.log(-np.expm1(-step))  # softplus of it is the step
        elif name.endswith((".D", "norm.weight", "norm_f.weight")):
            values = np.ones(shape)
        elif name.endswith(("x_proj.weight", "dt_proj.weight", "conv1d.weight", "conv1d.bias")):
            values = self.random.uniform(-1, 1, shape) / np.sqrt(shape[-1])
        else:
            return None
        return np.asarray(values, np.float32)


def _write_shard(path: Path, shapes: Shapes, values: _Values) -> None:
    entries: dict[str, Entry] = {}
    place = 0
    for name, shape in shapes.items():
        entries[name] = Entry(values.code, shape, place, place + prod(shape) * values.itemsize)
        place = entries[name].end
    with path.open("xb") as out:
        out.write(header_bytes(entries, {"format": "pt"}, align=8))  # as the reference implementation does
        for name, entry in entries.items():
            values.write(name, entry, out)


def _config(size: MambaSize, dtype: str) -> dict[str, Any]:
    return {
        "architectures": ["MambaForCausalLM"],
        "model_type": "mamba",
        "hidden_size": size.d_model,
        "intermediate_size": size.d_inner,
        "expand": size.d_inner // size.d_model,
        "state_size": size.n,
        "time_step_rank": size.dt_rank,
        "num_hidden_layers": size.layers,
        "conv_kernel": size.conv,
        "vocab_size": size.vocab,
        "tie_word_embeddings": True,
        "use_bias": False,
        "use_conv_bias": True,
        "torch_dtype": dtype,
    }
