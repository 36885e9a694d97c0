"""From named arrays of any S5 layout to our model: names, shapes, and what they reveal of the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from aireprune.arrays import NamedArrays, Shape
from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.models.s5 import S5Model
from aireprune.models.s5_config import S5Config

_LEAVES = {"kernel": "weight", "scale": "weight", "mean": "running_mean", "var": "running_var"}
_AMBIGUOUS = {
    "activation": "half_glu1 or half_glu2",
    "conj_sym": "true if one of each conjugate pair is stored",
    "discretization": "zoh or bilinear",
    "prenorm": "true or false",
    "mode": "pool or last",
}


def torch_name(name: str) -> str:
    """Our name of an array of the official Flax tree; names that are ours already come back unchanged.

    params.encoder.layers_0.seq.B -> layers.0.seq.B, params.encoder.encoder.kernel -> encoder.weight, …
    """
    name = re.sub(r"^(params|batch_stats)\.", "", name)
    name = re.sub(r"^encoder\.(?=encoder\.|layers_)", "", name)
    name = re.sub(r"^layers_(\d+)\.", r"layers.\1.", name)
    stem, _, leaf = name.rpartition(".")
    return f"{stem}.{_LEAVES.get(leaf, leaf)}" if stem else name


def infer_config(found: Found, shapes: Mapping[str, Shape]) -> S5Config:
    """The configuration that came along, completed by what the tensors reveal and checked against it.

    shapes: of the tensors, under our names and in torch's orientation.
    """
    config, where = found.config, found.name
    revealed = _revealed(shapes, where)
    symmetries = {layer.options.conj_sym for layer in found.layers}
    if symmetries <= {True} or symmetries <= {False}:
        revealed["conj_sym"] = symmetries.pop()
    for key, value in revealed.items():
        if key in config and key not in ("n", "states", "C_init", "conj_sym") and config[key] != value:
            raise AireError(f"{where}: the configuration says {key} = {config[key]!r}, but the tensors show {value!r}.")
    known = {**revealed, **{key: value for key, value in config.items() if key not in ("n", "states")}}
    missing = [key for key in _AMBIGUOUS if key not in known]
    if missing:
        options = "; ".join(f"{key} ({_AMBIGUOUS[key]})" for key in missing)
        raise AireError(
            f"{where}: the tensors do not reveal {options}. Put them into {where.rsplit('.', 1)[0]}.json, or give them "
            "with config=."
        )
    per_mode = 2 if known["conj_sym"] else 1
    known["n"] = per_mode * max((*known["states"], 1))
    if len(set(known["states"])) == 1 and known["states"][0] > 0:
        known["states"] = None
    return S5Config.from_dict(known, where)


def _revealed(shapes: Mapping[str, Shape], where: str) -> dict[str, Any]:
    numbers = sorted({int(m.group(1)) for name in shapes if (m := re.match(r"layers\.(\d+)\.seq\.", name))})
    if not numbers or numbers != list(range(len(numbers))) or "encoder.weight" not in shapes:
        raise AireError(
            f"{where} holds S5 layers, but not a whole classifier in the official structure (encoder, layers, decoder)"
            ", so there is no model to build. The file itself can be inspected, scored and pruned."
        )
    h, d_input = _dense(shapes, "encoder.weight", where)
    retrieval = "decoder.layer1.weight" in shapes
    d_output, _ = _dense(shapes, "decoder.layer2.weight" if retrieval else "decoder.weight", where)
    states = tuple(_poles(shapes, number)[0] for number in numbers)
    pole_free = {"layers.0.seq.Lambda_re", "layers.0.seq.Lambda"}.isdisjoint(shapes)
    if pole_free:
        raise AireError(f"{where}: layers.0.seq has neither Lambda_re nor Lambda.")
    two_c = "layers.0.seq.C1" in shapes
    widest = int(np.argmax(states))
    one_c = not two_c and states[widest] > 0 and shapes[f"layers.{widest}.seq.C"][1] == 2 * states[widest]
    revealed: dict[str, Any] = {
        "h": h,
        "d_input": d_input,
        "d_output": d_output,
        "layers": len(numbers),
        "states": states,
        "retrieval": retrieval,
        "bidirectional": two_c or one_c,
        "batchnorm": "layers.0.norm.running_mean" in shapes,
    }
    if one_c:
        revealed["C_init"] = "complex_normal"
    if "layers.0.out1.weight" in shapes:
        revealed["activation"] = "full_glu"
    elif "layers.0.out2.weight" not in shapes:
        revealed["activation"] = "gelu"
    return revealed


def _poles(shapes: Mapping[str, Shape], number: int) -> Shape:
    for leaf in ("Lambda_re", "Lambda"):
        if f"layers.{number}.seq.{leaf}" in shapes:
            return shapes[f"layers.{number}.seq.{leaf}"]
    raise AireError(f"Tensor layers.{number}.seq.Lambda_re is missing: the S5 layer needs it.")


def _dense(shapes: Mapping[str, Shape], name: str, where: str) -> Shape:
    """(out, in) of a dense layer; the caller's shapes are in our naming but may still be Flax's (in, out)."""
    if name not in shapes:
        raise AireError(f"{where}: tensor {name} is missing, so the classifier is not complete.")
    return shapes[name]


class _Transposed:
    """Named arrays in which Flax's dense kernels (in, out) appear as torch's weights (out, in)."""

    def __init__(self, arrays: NamedArrays):
        self._arrays = arrays
        self.shapes = {
            name: shape[::-1] if name.endswith(".kernel") else shape for name, shape in arrays.shapes.items()
        }

    def __getitem__(self, name: str) -> np.ndarray:
        values = self._arrays[name]
        return values.T if name.endswith(".kernel") else values


def build_s5(found: Found) -> S5Model:
    """The model with these weights, in evaluation mode."""
    arrays, where = _Transposed(found.arrays), found.name
    shapes = {torch_name(name): shape for name, shape in arrays.shapes.items()}
    model = S5Model(infer_config(found, shapes))
    values = {torch_name(name): np.asarray(arrays[name]) for name in arrays.shapes}
    values = {key: array for name, value in values.items() for key, array in _official(name, value)}
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


def _official(name: str, value: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """One array of either layout as arrays of the official one: complex numbers as (re, im), log_step as a column."""
    stem, _, leaf = name.rpartition(".")
    if leaf == "Lambda" and stem.endswith("seq"):
        return [(f"{stem}.Lambda_re", value.real.copy()), (f"{stem}.Lambda_im", value.imag.copy())]
    if np.iscomplexobj(value):
        value = np.stack([value.real, value.imag], axis=-1)
    if leaf == "log_step" and value.ndim == 1:
        value = value[:, None]
    return [(name, value)]
