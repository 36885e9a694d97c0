"""A checkpoint whose architecture only its owner knows: a Python file of theirs builds the module.

This runs the file's code, as `python path.py` would. Nothing else here runs code that comes with a model.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from aireprune.arrays import NamedArrays
from aireprune.errors import AireError

Builder = Callable[[], nn.Module]


def load_builder(spec: str) -> Builder:
    """The function that 'path.py:build_model' names; the file is run."""
    where, _, name = spec.rpartition(":")
    path = Path(where)
    if not where or not name.isidentifier():
        raise AireError(f"module={spec!r} does not name a function in a file; write path.py:build_model.")
    if not path.is_file():
        raise AireError(f"There is no file {path} to take {name} from.")
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None or found.loader is None:
        raise AireError(f"{path} is not a Python file.")
    code = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(code)
    except Exception as problem:
        raise AireError(f"{path} failed when it was run: {_said(problem)}.") from problem
    builder = getattr(code, name, None)
    if not callable(builder):
        raise AireError(f"{path} has no function {name}.")
    return lambda: _built(builder, spec)


def _built(builder: Builder, spec: str) -> nn.Module:
    try:
        module = builder()
    except Exception as problem:
        raise AireError(f"{spec} failed: {_said(problem)}.") from problem
    if not isinstance(module, nn.Module):
        raise AireError(f"{spec} returned a {type(module).__name__}; expected a torch module.")
    return module


def _said(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}{': ' + lines[0].rstrip('.')[:200] if lines else ''}"


def filled(module: nn.Module, arrays: NamedArrays, name: str) -> nn.Module:
    """The module with the weights of a checkpoint, in evaluation mode; names and shapes must be those of its state dict."""
    state, shapes = module.state_dict(), arrays.shapes
    _compare({key: tuple(tensor.shape) for key, tensor in state.items()}, shapes, name)
    with torch.no_grad():
        for key, tensor in state.items():
            tensor.copy_(torch.from_numpy(np.array(arrays[key])))
    return module.eval()


def _compare(mine: Mapping[str, tuple[int, ...]], its: Mapping[str, tuple[int, ...]], name: str) -> None:
    for what, missing in (
        ("is missing in the file", mine.keys() - its.keys()),
        ("is not in the module", its.keys() - mine),
    ):
        if missing:
            raise AireError(
                f"{name} does not fit the module that was built: tensor {min(missing)} {what} ({len(missing)} such "
                "tensors). The function must return the module whose state_dict was saved."
            )
    for key in mine:
        if tuple(its[key]) != mine[key]:
            raise AireError(f"{name}: tensor {key} has shape {tuple(its[key])}, but the module has {mine[key]}.")
