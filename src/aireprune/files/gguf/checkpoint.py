"""GGUF files of Mamba and Mamba-2 under the names that transformers has for the same tensors; for reading alone.

The inverse of `aireprune.exports.gguf.tensors`: A_log = log(-ssm_a), a convolution of one more axis, plain norms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from aireprune.arrays import Edit, Shape
from aireprune.errors import AireError, shown
from aireprune.extras import extra
from aireprune.files.configs import ConfigLike, find_config
from aireprune.files.dtypes import widen
from aireprune.files.gguf.header import Tensor, read_header
from aireprune.files.reading import open_plain
from aireprune.files.shapes import elements
from aireprune.files.single import beside

READ_ONLY = (
    "is a GGUF file, which can be inspected and scored but not changed: prune the folder that it was made from, then make "
    "it again with aireprune.export"
)
ARCHITECTURES = ("mamba", "mamba2")
WHOLE = {
    "token_embd.weight": "backbone.embeddings.weight",
    "output_norm.weight": "backbone.norm_f.weight",
    "output.weight": "lm_head.weight",
}
PARTS = {
    "attn_norm.weight": "norm.weight",
    "ssm_in.weight": "mixer.in_proj.weight",
    "ssm_conv1d.weight": "mixer.conv1d.weight",
    "ssm_conv1d.bias": "mixer.conv1d.bias",
    "ssm_a": "mixer.A_log",
    "ssm_d": "mixer.D",
    "ssm_out.weight": "mixer.out_proj.weight",
    "ssm_x.weight": "mixer.x_proj.weight",
    "ssm_dt.weight": "mixer.dt_proj.weight",
    "ssm_norm.weight": "mixer.norm.weight",
}
STEP_BIAS = {"mamba": "mixer.dt_proj.bias", "mamba2": "mixer.dt_bias"}  # ssm_dt.bias
FLOAT32, FLOAT16, BFLOAT16 = 0, 1, 30  # types whose bytes are numbers
WIDTHS = {FLOAT32: 4, FLOAT16: 2, BFLOAT16: 2}


class GGUFCheckpoint:
    """A GGUF file as named arrays; see `aireprune.files.base.Checkpoint`. It has no copies."""

    kind = "gguf"

    def __init__(self, path: Path, config: ConfigLike = None) -> None:
        self.path = path
        header = read_header(path)
        self._architecture = header.fields.get("general.architecture")
        if self._architecture not in ARCHITECTURES:
            raise AireError(
                f"{path} is a GGUF file of architecture {shown(repr(self._architecture))}; those of "
                f"{' and '.join(ARCHITECTURES)} are read."
            )
        self._tensors = {self._name(name): tensor for name, tensor in header.tensors.items()}
        for name, tensor in self._tensors.items():
            self._check_end(
                tensor.start + WIDTHS.get(tensor.kind, 0) * elements(tensor.shape), f"{path}: tensor {shown(name)}"
            )
        self.shapes: Mapping[str, Shape] = {name: self._shape(name, one.shape) for name, one in self._tensors.items()}
        self.config: Mapping[str, Any] = find_config(path, config, beside(path, "json")).values or self._said(
            header.fields
        )
        self.notices = [f"{shown(path.name)} can be inspected and scored; a GGUF file is not changed here."]

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        values = self._read(tensor, f"{self.path}: tensor {shown(name)}").reshape(self.shapes[name])
        if not name.endswith("A_log"):
            return values
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(-values)

    def check_target(self, target: Path) -> NoReturn:
        """Refused, whatever its name: see `READ_ONLY`."""
        raise AireError(f"{self.path} {READ_ONLY}.")

    def write(
        self,
        target: Path,
        edits: Mapping[str, Edit],
        config: Mapping[str, Any] | None = None,
        extras: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> NoReturn:
        """Refused."""
        self.check_target(target)

    def _name(self, name: str) -> str:
        found = re.fullmatch(r"blk\.(\d{1,9})\.(.+)", name)
        if found is None:
            return WHOLE.get(name, name)
        part = STEP_BIAS[str(self._architecture)] if found[2] == "ssm_dt.bias" else PARTS.get(found[2], found[2])
        return f"backbone.layers.{found[1]}.{part}"

    def _shape(self, name: str, stored: Shape) -> Shape:
        if name.endswith("conv1d.weight") and len(stored) == 2:
            return (stored[0], 1, stored[1])
        heads = self._architecture == "mamba2" and name.endswith(("A_log", ".D", "mixer.norm.weight"))
        return (elements(stored),) if heads else stored

    def _said(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes under transformers' names."""
        names = {"ssm.state_size": "state_size", "embedding_length": "hidden_size", "ssm.group_count": "n_groups"}
        found = {name: fields.get(f"{self._architecture}.{key}") for key, name in names.items()}
        return {"model_type": self._architecture, **{name: value for name, value in found.items() if value is not None}}

    def _read(self, tensor: Tensor, where: str) -> np.ndarray:
        """The values in single precision, flat."""
        count = elements(tensor.shape)
        if tensor.kind in WIDTHS:
            raw = self._bytes(tensor.start, count * WIDTHS[tensor.kind], where)
            if tensor.kind == BFLOAT16:
                return widen(raw.view("<u2"))
            return raw.view("<f4" if tensor.kind == FLOAT32 else "<f2").astype(np.float32)
        gguf = extra("gguf", "Reading quantised tensors", "gguf")
        try:
            quantised = gguf.GGMLQuantizationType(tensor.kind)
            block, size = gguf.GGML_QUANT_SIZES[quantised]
            raw = self._bytes(tensor.start, count // block * size, where)
            return np.asarray(gguf.quants.dequantize(raw.reshape(-1, size), quantised), np.float32).reshape(-1)
        except (ValueError, KeyError, NotImplementedError):
            raise AireError(f"{where} is of type {tensor.kind}, whose values cannot be read.") from None

    def _check_end(self, end: int, where: str) -> None:
        if end > self.path.stat().st_size:
            raise AireError(f"{where} is cut off: the file ends before it does.")

    def _bytes(self, start: int, size: int, where: str) -> np.ndarray:
        self._check_end(start + size, where)
        with open_plain(self.path) as file:
            file.seek(start)
            return np.frombuffer(file.read(size), np.uint8)
