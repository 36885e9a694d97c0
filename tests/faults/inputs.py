"""Inputs for each reader: small valid files, changed where it hurts. Input `number` of a seed is always the same."""

from __future__ import annotations

import copy
import json
import os
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import numpy as np
from faults.inputs_torch import torch_old, torch_zip
from faults.mutations import NAMES, NUMBERS, VALUES, change_bytes, change_json, json_bytes

DTYPES = ("F64", "F32", "F16", "BF16", "C64", "I64", "I8", "U8", "BOOL", "F8_E4M3", "F4", "X9", "", "f32")
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "C64": 8, "I64": 8, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1}
FLAX_TYPES = (
    "float32",
    "float64",
    "bfloat16",
    "complex64",
    "int32",
    "bool",
    "float8_e4m3fn",
    "O",
    "V8",
    "f4,f4",
    "<f4",
    "",
)
CONFIGS: tuple[dict[str, Any], ...] = (
    {"model_type": "mamba", "state_size": 16, "architectures": ["MambaForCausalLM"], "per_layer_config": {"0": {"x": 1}}},
    {"format": "aireprune", "family": "s5", "states": [4, 4], "n": 4, "text_config": {"state_size": 8}},
    {"d_model": 8, "n_layer": 2, "ssm_cfg": {"layer": "Mamba2", "d_state": 64}, "time_step_limit": [0.0, 1.0]},
)  # fmt: skip


def _packable(value: Any) -> bool:
    try:
        msgpack.packb(value)
    except (OverflowError, ValueError, UnicodeEncodeError):
        return False
    return True


PACKABLE = tuple(value for value in VALUES if _packable(value))


def safetensors_header(rng: Random) -> tuple[dict[str, Any], bytes]:
    """A valid header and its data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}} if rng.random() < 0.5 else {}
    place = 0
    for number in range(rng.randint(1, 4)):
        dtype = rng.choice(list(WIDTHS))
        shape = [rng.randint(0, 4) for _ in range(rng.randint(0, 3))]
        size = int(np.prod(shape, dtype=int)) * WIDTHS[dtype]
        header[f"layers.{number}.A_log"] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + size]}
        place += size
    return header, rng.randbytes(place)


def safetensors(rng: Random, folder: Path) -> Path:
    """A .safetensors file whose header, length or data are wrong."""
    header, data = safetensors_header(rng)
    kind = rng.randrange(6)
    if kind == 0:
        text = json.dumps(header).encode()
        content = change_bytes(rng, struct.pack("<Q", len(text)) + text + data)
    else:
        changed: Any = header
        if kind == 1:
            name = rng.choice([name for name in header if name != "__metadata__"])
            field = rng.choice(("dtype", "shape", "data_offsets"))
            wrong: dict[str, Any] = {
                "dtype": DTYPES,
                "shape": VALUES,
                "data_offsets": ([0, 0], [1, 0], [-1, 4], [0, 2**63], [0], [0, 8]),
            }
            header[name][field] = copy.deepcopy(rng.choice(wrong[field]))
        elif kind <= 4:
            changed = change_json(rng, header)
        text = json_bytes(rng, changed) if kind <= 4 else json.dumps(header, indent=rng.choice((None, 1))).encode()
        length = len(text) if rng.random() < 0.9 else rng.choice(NUMBERS) % 2**64
        content = struct.pack("<Q", length) + text + (data if rng.random() < 0.8 else change_bytes(rng, data))
    path = folder / "x.safetensors"
    path.write_bytes(content)
    return path


def tree(rng: Random) -> Any:
    """A Flax tree, with arrays that may be wrong."""

    def array() -> Any:
        shape: Any = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]
        dtype: Any = rng.choice(FLAX_TYPES[:6])
        data = bytes(
            int(np.prod(shape, dtype=int)) * {"float64": 8, "complex64": 8, "bfloat16": 2, "bool": 1}.get(dtype, 4)
        )
        if rng.random() < 0.15:
            dtype = rng.choice((*FLAX_TYPES, 3, None, b"float32"))
        if rng.random() < 0.15:
            shape = rng.choice((*PACKABLE, [2**62], [-1, 4]))
        if rng.random() < 0.15:
            data = data[: rng.randint(0, len(data))]
        inner: Any = (shape, dtype, data)
        if rng.random() < 0.1:
            inner = rng.choice((inner[:2], (*inner, 1), {"a": 1}, []))
        return msgpack.ExtType(rng.choice((1, 1, 1, 1, 1, 2, 3, 7)), msgpack.packb(inner))

    def chunked() -> Any:
        piece = msgpack.ExtType(1, msgpack.packb(([2], "float32", bytes(8))))
        node: dict[str, Any] = {
            "__msgpack_chunked_array__": True,
            "shape": {"0": 2, "1": 2},
            "chunks": {"0": piece, "1": piece},
        }
        if rng.random() < 0.6:
            part = rng.choice(("shape", "chunks"))
            node[part] = rng.choice(({}, [], 3, {"0": 4}, {"1": 2}, {"0": piece}, {"0": array()}, {"0": 2, "1": -2}))
        return node

    def node(depth: int) -> Any:
        if depth > 3 or rng.random() < 0.4:
            return rng.choice((array, array, array, chunked, lambda: rng.choice(PACKABLE)))()
        keys: tuple[Any, ...] = ("params", "opt_state", "a", "b", "layers_0", 3, "a.b", *NAMES[:12])
        return {rng.choice(keys): node(depth + 1) for _ in range(rng.randint(1, 3))}

    return {"params": {"w": array()}, **{f"k{number}": node(1) for number in range(rng.randint(0, 3))}}


def flax(rng: Random, folder: Path) -> Path:
    """A .msgpack file with wrong arrays, keys or bytes."""
    data = msgpack.packb(tree(rng))
    path = folder / "x.msgpack"
    path.write_bytes(change_bytes(rng, data) if rng.random() < 0.4 else data)
    return path


def indexed(rng: Random, folder: Path) -> Path:
    """A folder of shards with a wrong index, wrong shards, or files missing."""
    folder = folder / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(rng.choice(CONFIGS)))
    (folder / "tokenizer.json").write_text("{}")
    weight_map: dict[str, str] = {}
    for number in range(rng.randint(1, 3)):
        header, data = safetensors_header(rng)
        names = {name: entry for name, entry in header.items() if name != "__metadata__"}
        names = {f"{number}.{name}": entry for name, entry in names.items()}
        shard = f"model-{number}.safetensors"
        text = json.dumps(names).encode()
        content = struct.pack("<Q", len(text)) + text + data
        (folder / shard).write_bytes(change_bytes(rng, content) if rng.random() < 0.15 else content)
        weight_map |= dict.fromkeys(names, shard)
    index: Any = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    if rng.random() < 0.6:
        index = change_json(rng, index)
    (folder / "model.safetensors.index.json").write_bytes(json_bytes(rng, index))
    if rng.random() < 0.3:
        _disturb(rng, folder)
    return folder


def _disturb(rng: Random, folder: Path) -> None:
    """Replace one file of a folder by something else."""
    path = rng.choice(sorted(folder.iterdir()))
    path.unlink()
    kind = rng.randrange(6)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.symlink_to(rng.choice(("/etc/hostname", "nowhere", path.name, "tokenizer.json", "/dev/zero", "..")))
    elif kind == 3:
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")
    elif kind == 4:
        path.write_bytes(rng.choice((b"", b"PK\3\4", b"\x80\2.", b"{}", b"GGUF", b"\x89HDF\r\n\x1a\n")))


def config(rng: Random, folder: Path) -> Path:
    """A folder with valid weights and a wrong configuration."""
    folder = folder / "model"
    folder.mkdir()
    header, data = safetensors_header(rng)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_bytes(json_bytes(rng, change_json(rng, rng.choice(CONFIGS))))
    return folder


READERS = {
    "safetensors": safetensors,
    "torch zip": torch_zip,
    "torch legacy": torch_old,
    "msgpack": flax,
    "folder and index": indexed,
    "config": config,
}


def make(reader: str, seed: int, number: int, folder: Path) -> Path:
    """Input `number` for a reader, written into an empty folder."""
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return READERS[reader](Random(f"{seed} {reader} {number}"), folder)
