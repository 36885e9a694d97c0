"""Projections in 8 bits, by onnxruntime's own dynamic quantisation."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from onnx import ModelProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from aireprune.errors import AireError
from aireprune.exports.quiet import quiet


def quantized(model: ModelProto) -> ModelProto:
    """A copy in which products with a weight matrix are of 8-bit integers, with a scale for every column."""
    matrices = {weight.name for weight in model.graph.initializer if len(weight.dims) == 2}
    chosen = [node.name for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in matrices]
    if not chosen:
        raise AireError("The model has no projections that could be stored in 8 bits.")
    about = {entry.key: entry.value for entry in model.metadata_props} | {"aireprune.int8": "projections"}
    with quiet(), tempfile.TemporaryDirectory() as folder:  # it recommends a preparation that changes nothing here
        out = Path(folder) / "model.onnx"
        quantize_dynamic(model, out, nodes_to_quantize=chosen, per_channel=True, weight_type=QuantType.QInt8)
        smaller = onnx.load(out)
    helper.set_model_props(smaller, about)
    return smaller
