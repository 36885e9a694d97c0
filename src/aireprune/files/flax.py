"""Flax checkpoints: a tree of named arrays in msgpack, as a bare parameter tree or a saved train state.

Names are the path in the tree joined with dots: params.encoder.layers_0.seq.B. The state of the optimiser has the
shapes of the unpruned parameters, so it is not read and is left out of a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.errors import AireError
from aireprune.files.base import Edit, Shape
from aireprune.files.flax_codec import CHUNKED, Array, as_array, decode, encode, pack_array
from aireprune.files.single import beside, check_names, read_config, write_beside

OPTIMISER = {"opt_state", "optimizer", "optimizer_state", "opt_states"}
MAX_DEPTH = 100
Path_ = tuple[Any, ...]


class FlaxCheckpoint:
    """A msgpack file written by flax.serialization.to_bytes or flax.training.checkpoints."""

    kind = "flax"

    def __init__(self, path: Path, config: Mapping[str, Any] | str | Path | None = None) -> None:
        self.path = path
        data = path.read_bytes()
        if not data:
            raise AireError(f"{path} is empty; expected a Flax checkpoint (msgpack).")
        try:
            tree = decode(data)
        except ValueError as error:
            raise AireError(f"{path} is not a Flax checkpoint, or it is truncated: msgpack says '{error}'.") from None
        if not isinstance(tree, dict):
            raise AireError(
                f"{path} is not a Flax checkpoint: expected a map of named arrays, found {type(tree).__name__}."
            )
        self.notices: list[str] = []
        self._tree, dropped = _without_optimiser(tree)
        if dropped:
            self.notices.append(f"{path.name}: the optimiser state ({', '.join(dropped)}) is left out of the output.")
        self._arrays: dict[str, tuple[Path_, Array]] = {}
        for where, array in _leaves(path, self._tree, ()):
            name = ".".join(map(str, where))
            if name in self._arrays:
                raise AireError(f"{path} has two arrays whose dotted name is {name}.")
            self._arrays[name] = (where, array)
        if not self._arrays:
            raise AireError(f"{path} holds no arrays; expected a Flax parameter tree or train state.")
        self.config: Mapping[str, Any] = read_config(path, config, beside(path, "json"))

    @property
    def shapes(self) -> Mapping[str, Shape]:
        return {name: array.shape for name, (_, array) in self._arrays.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name][1].values(f"{self.path}: tensor {name}")

    def write(
        self,
        target: Path,
        edits: Mapping[str, Edit],
        config: Mapping[str, Any] | None = None,
        extras: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """See `Checkpoint.write`. Without edits and without an optimiser state the copy has the same bytes."""
        check_names(self.path, edits, self._arrays)

        def write(temporary: Path) -> None:
            tree = self._tree
            for name, edit in edits.items():
                where, array = self._arrays[name]
                tree = _replaced(tree, where, pack_array(edit(self[name]), array.dtype, f"{self.path}: tensor {name}"))
            temporary.write_bytes(encode(tree))

        write_beside(self.path, self.kind, target, self.config if config is None else config, extras, overwrite, write)


def _without_optimiser(tree: dict[Any, Any]) -> tuple[dict[Any, Any], list[str]]:
    """The tree without optimiser states, and their names. A train state may be wrapped once."""
    dropped: list[str] = []
    result: dict[Any, Any] = {}
    for key, value in tree.items():
        if key in OPTIMISER:
            dropped.append(str(key))
        elif isinstance(value, dict) and "params" in value and OPTIMISER & set(map(str, value)):
            result[key] = {inner: node for inner, node in value.items() if inner not in OPTIMISER}
            dropped += [f"{key}.{inner}" for inner in value if inner in OPTIMISER]
        else:
            result[key] = value
    return result, dropped


def _leaves(path: Path, node: Any, where: Path_) -> Iterator[tuple[Path_, Array]]:
    name = ".".join(map(str, where))
    if len(where) > MAX_DEPTH:
        raise AireError(f"{path} is nested more than {MAX_DEPTH} levels deep; expected a Flax parameter tree.")
    try:
        array = as_array(node)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise AireError(f"{path}: array {name} is damaged ({error}).") from None
    if array is not None:
        yield where, array
    elif isinstance(node, dict) and CHUNKED not in node:
        for key, value in node.items():
            yield from _leaves(path, value, (*where, key))


def _replaced(node: Any, where: Path_, value: Any) -> Any:
    """A copy of the tree along one path, with the node at its end replaced."""
    if not where:
        return value
    return {key: _replaced(child, where[1:], value) if key == where[0] else child for key, child in node.items()}
