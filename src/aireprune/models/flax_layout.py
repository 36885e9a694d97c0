"""From named arrays of a Flax tree, or of ours, to a model of diagonal blocks: names, orientation, what shapes reveal.

The official S5 and minimal-LRU share one structure: an encoder, blocks with a layer `seq`, a norm and up to two dense
layers, and a decoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from aireprune.arrays import NamedArrays, Shape
from aireprune.errors import AireError

Model = TypeVar("Model", bound=nn.Module)
_LEAVES = {"kernel": "weight", "scale": "weight", "mean": "running_mean", "var": "running_var"}
_AMBIGUOUS = {
    "activation": "half_glu1 or half_glu2",
    "conj_sym": "true if one of each conjugate pair is stored",
    "discretization": "zoh or bilinear",
    "prenorm": "true or false",
    "mode": "pool or last",
}


def torch_name(name: str) -> str:
    """Our name of an array of a Flax tree; names that are ours already come back unchanged.

    params.encoder.layers_0.seq.B -> layers.0.seq.B, params.encoder.encoder.kernel -> encoder.weight, …
    """
    name = re.sub(r"^(params|batch_stats)\.", "", name)
    name = re.sub(r"^encoder\.(?=encoder\.|layers_)", "", name)
    name = re.sub(r"^layers_(\d+)\.", r"layers.\1.", name)
    name = re.sub(r"^(layers\.\d+)\.normalization\.", r"\1.norm.", name)  # minimal-LRU
    stem, _, leaf = name.rpartition(".")
    return f"{stem}.{_LEAVES.get(leaf, leaf)}" if stem else name


class Transposed:
    """Named arrays in which Flax's dense kernels (in, out) appear as torch's weights (out, in)."""

    def __init__(self, arrays: NamedArrays):
        self._arrays = arrays
        self.shapes = {
            name: shape[::-1] if name.endswith(".kernel") else shape for name, shape in arrays.shapes.items()
        }

    def __getitem__(self, name: str) -> np.ndarray:
        values = self._arrays[name]
        return values.T if name.endswith(".kernel") else values


def surroundings(shapes: Mapping[str, Shape], model: str, where: str) -> dict[str, Any]:
    """What the shapes, under our names, reveal about everything but the layers `seq`."""
    numbers = sorted({int(m.group(1)) for name in shapes if (m := re.match(r"layers\.(\d+)\.seq\.", name))})
    if not numbers or numbers != list(range(len(numbers))) or "encoder.weight" not in shapes:
        raise AireError(
            f"{where} holds {model} layers, but not a whole classifier in the known structure (encoder, layers, decoder), "
            "so there is no model to build. The file itself can be inspected, scored and pruned."
        )
    h, d_input = shapes["encoder.weight"]
    retrieval = "decoder.layer1.weight" in shapes
    decoder = "decoder.layer2.weight" if retrieval else "decoder.weight"
    if decoder not in shapes:
        raise AireError(f"{where}: tensor {decoder} is missing, so the classifier is not complete.")
    revealed: dict[str, Any] = {
        "h": h,
        "d_input": d_input,
        "d_output": shapes[decoder][0],
        "layers": len(numbers),
        "retrieval": retrieval,
        "batchnorm": "layers.0.norm.running_mean" in shapes,
    }
    if "layers.0.out1.weight" in shapes:
        revealed["activation"] = "full_glu"
    elif "layers.0.out2.weight" not in shapes:
        revealed["activation"] = "gelu"
    return revealed


def settled(
    config: Mapping[str, Any], revealed: Mapping[str, Any], needed: tuple[str, ...], where: str
) -> dict[str, Any]:
    """What is revealed and what came along, without `n` and `states`, which the tensors decide; an error if the two
    contradict each other, or if neither says something that is needed."""
    for key, value in revealed.items():
        if key in config and key not in ("n", "states", "C_init", "conj_sym") and config[key] != value:
            raise AireError(f"{where}: the configuration says {key} = {config[key]!r}, but the tensors show {value!r}.")
    known = {**revealed, **{key: value for key, value in config.items() if key not in ("n", "states")}}
    missing = [key for key in needed if key not in known]
    if missing:
        options = "; ".join(f"{key} ({_AMBIGUOUS[key]})" for key in missing)
        raise AireError(
            f"{where}: the tensors do not reveal {options}. Put them into {where.rsplit('.', 1)[0]}.json, or give them "
            "with config=."
        )
    return known


def filled(model: Model, values: Mapping[str, np.ndarray], where: str) -> Model:
    """The model with these arrays, under its own names, as its weights, in evaluation mode."""
    wanted = model.state_dict()
    given = {name: torch.tensor(values[name]) for name in wanted if name in values}
    for name, tensor in wanted.items():
        if name.endswith("num_batches_tracked"):
            given.setdefault(name, tensor)
        elif name not in given:
            raise AireError(f"{where}: tensor {name} is missing.")
        elif given[name].shape != tensor.shape:
            raise AireError(
                f"{where}: tensor {name} has shape {tuple(given[name].shape)}, expected {tuple(tensor.shape)}."
            )
    model.load_state_dict(given)
    return model.eval()
