"""From a Mamba or Mamba-2 language model to a GGUF file whose tensors were read back and compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

from aireprune.errors import AireError
from aireprune.exports.gguf.tensors import EMBEDDING, architecture, inner_size, tensors
from aireprune.exports.gguf.tokenizer import add_tokenizer
from aireprune.pruning.source import FileSource, ModuleSource

CONTEXT = 2**20  # llama.cpp asks for a longest text; these models have none
TYPES = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
MATRICES = ("token_embd.weight", "output.weight", "ssm_in.weight", "ssm_out.weight", "ssm_x.weight")
ROUNDING = {"F32": 0.0, "F16": 2**-10, "Q8_0": 1 / 127}  # of a number, relative to the largest of its row


def write_gguf(
    source: FileSource | ModuleSource, path: Path, weights: str, about: Mapping[str, str]
) -> tuple[list[str], float]:
    """Write the file and read it back: what a user should know, and the largest difference of a tensor from the model's."""
    kind = architecture(source)
    writer = gguf.GGUFWriter(path, kind)
    _add_sizes(writer, source, kind)
    wanted, file_type = TYPES[weights]
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, text in about.items():
        writer.add_string(key, text)
    notices = add_tokenizer(writer, _folder(source), source.arrays.shapes[EMBEDDING][0])
    for name, values in tensors(source, kind):
        stored = _stored_as(name, values, wanted)
        writer.add_tensor(name, gguf.quants.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return notices, _difference(source, kind, path)


def _add_sizes(writer: gguf.GGUFWriter, source: FileSource | ModuleSource, kind: str) -> None:
    config, layer, shapes = source.config, source.layers[0], source.arrays.shapes
    mixer = "backbone.layers.0.mixer."
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(int(config["hidden_size"]))
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(len(source.layers))
    writer.add_ssm_conv_kernel(shapes[f"{mixer}conv1d.weight"][2])
    writer.add_ssm_inner_size(inner_size(source))
    writer.add_ssm_state_size(layer.states // layer.groups)
    writer.add_layer_norm_rms_eps(float(config.get("layer_norm_epsilon", 1e-5)))
    if kind == "mamba":
        writer.add_ssm_time_step_rank(shapes[f"{mixer}dt_proj.weight"][1])
        writer.add_ssm_dt_b_c_rms(False)
    else:
        writer.add_ssm_time_step_rank(shapes[f"{mixer}A_log"][0])
        writer.add_ssm_group_count(int(config["n_groups"]))


def _stored_as(name: str, values: np.ndarray, wanted: gguf.GGMLQuantizationType) -> gguf.GGMLQuantizationType:
    """Matrices as asked for; in half precision where rows cannot be divided into blocks; all else in single."""
    if not name.endswith(MATRICES):
        return gguf.GGMLQuantizationType.F32
    block, _ = gguf.GGML_QUANT_SIZES[wanted]
    return wanted if values.shape[-1] % block == 0 else gguf.GGMLQuantizationType.F16


def _folder(source: FileSource | ModuleSource) -> Path | None:
    """Where the tokenizer is."""
    if isinstance(source, FileSource):
        return source.checkpoint.path
    origin = getattr(source.module, "name_or_path", "")
    return Path(origin) if origin and Path(origin).is_dir() else None


def _difference(source: FileSource | ModuleSource, kind: str, path: Path) -> float:
    """The largest difference of a number, relative to the largest of its tensor; an error if it is more than rounding."""
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    largest = 0.0
    for name, values in tensors(source, kind):
        tensor = found.pop(name)
        read = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(values.shape)
        row = np.abs(values).max(axis=-1, keepdims=True, initial=0)
        if (
            np.abs(read - values) > ROUNDING[tensor.tensor_type.name] * row + 1e-7
        ).any():  # half precision ends at 6e-8
            raise AireError(f"{name} is not in the GGUF file as it is in the model. The file was not kept.")
        largest = max(largest, float(np.abs(read - values).max(initial=0)) / max(float(row.max(initial=0)), 1e-30))
    if found:
        raise AireError(f"The GGUF file has tensors that the model has not: {', '.join(found)}. It was not kept.")
    return largest
