"""Inputs for the readers of PyTorch files: what training scripts save, changed where it hurts."""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from faults.mutations import NAMES, any_value, change_bytes, change_pickle


def state(rng: Random) -> Any:
    """What training scripts save: state dicts, bare or wrapped, of every kind of tensor."""
    base = torch.arange(24.0).reshape(4, 6)
    tensors: dict[Any, Any] = OrderedDict() if rng.random() < 0.5 else {}
    kinds = (
        lambda: base.to(rng.choice((torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool))),
        lambda: base.T, lambda: base[1:, ::2], lambda: base, lambda: torch.nn.Parameter(base.clone()),
        lambda: torch.complex(base, base).conj(), lambda: torch.ones(1).expand(3, 4), lambda: torch.empty(0, 3),
        lambda: torch.tensor(3.0), lambda: base.to(torch.float8_e4m3fn), lambda: torch.tensor([float("nan"), 1.0]),
    )  # fmt: skip
    for number in range(rng.randint(1, 4)):
        tensors[rng.choice((f"layers.{number}.w", number, rng.choice(NAMES[:-2])))] = rng.choice(kinds)()
    content: Any = tensors
    if rng.random() < 0.4:
        content = {
            rng.choice(("model", "state_dict", "module", "x")): content,
            "epoch": 3,
            "args": {"lr": 0.1, "l": [1]},
        }
    if rng.random() < 0.2 and isinstance(content, dict):
        content["optimizer"] = {"state": {0: {"step": 1}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99)}]}
        content[rng.choice(("ema", "rest"))] = {"w": base, "set": {1, 2}, "bytes": b"x", "size": torch.Size([1, 2])}
    if rng.random() < 0.1:
        content = rng.choice((tensors, [tensors], 3, "x", None, {"a": tensors, "b": tensors}))
    return content


@cache
def saved(number: int, zipped: bool) -> bytes:
    """One of a few saved states."""
    file = io.BytesIO()
    torch.save(state(Random(number)), file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def torch_zip(rng: Random, folder: Path) -> Path:
    """A .pt archive whose pickle, records or directory are wrong."""
    data = saved(rng.randrange(60), True)
    path = folder / "x.pt"
    kind = rng.randrange(10)
    if kind == 0:
        path.write_bytes(change_bytes(rng, data))
        return path
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    main = next(name for name in records if name.endswith("/data.pkl"))
    if kind <= 5:
        records[main] = change_pickle(rng, records[main])
    elif kind == 6:
        records[main] = change_bytes(rng, records[main])
    elif kind == 7:
        name = rng.choice(list(records))
        content = records.pop(name)
        if rng.random() < 0.7:
            records[rng.choice((name, name + "x", "other/data.pkl", "a.npy"))] = change_bytes(rng, content)
    file = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    content = file.getvalue()
    if rng.random() < 0.2:  # the directory
        at = content.index(b"PK\1\2")
        content = content[:at] + change_bytes(rng, content[at:])
    path.write_bytes(content)
    return path


def torch_old(rng: Random, folder: Path) -> Path:
    """A .pt file of the old layout whose pickles or storages are wrong."""
    data = saved(rng.randrange(60), False)
    path = folder / "x.pt"
    kind = rng.randrange(6)
    if kind == 0:
        path.write_bytes(change_bytes(rng, data))
        return path
    file = io.BytesIO(data)
    starts = []
    for _ in range(5):
        starts.append(file.tell())
        _skip_pickle(file)
    starts.append(file.tell())
    parts = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    at = 3 if kind <= 3 else rng.randrange(6)
    parts[at] = change_bytes(rng, parts[at]) if at == 5 or rng.random() < 0.1 else change_pickle(rng, parts[at])
    if rng.random() < 0.05:
        parts = [pickle.dumps(any_value(rng), rng.choice((2, 4)))]
    path.write_bytes(b"".join(parts))
    return path


def _skip_pickle(file: io.BytesIO) -> None:
    for _ in pickletools.genops(file):
        pass
