"""An ONNX graph while it is written: operators in order, weights, inputs and outputs. Values are named by strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from aireprune.errors import AireError

LARGEST = 2**31 - 2**20  # bytes that a file may have, with room for what is not a weight
Dimension = str | int
Step = Callable[["Graph", str, Sequence[str]], tuple[str, str]]  # (body, state, inputs) -> new state, output


class Graph:
    """Operators and weights under names that follow `scope`. parent: the graph in whose operator this one is the body."""

    def __init__(self, opset: int, parent: Graph | None = None) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self._root: Graph = self if parent is None else parent._root
        self._scope: tuple[str, ...] = ()
        self._numbers = 0
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """What is added meanwhile is named NAME.…"""
        before = self._root._scope
        self._root._scope = (*before, name)
        try:
            yield
        finally:
            self._root._scope = before

    @property
    def path(self) -> tuple[str, ...]:
        """The scopes that are open."""
        return self._root._scope

    def input(self, name: str, kind: type, shape: Sequence[Dimension]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, _element(kind), list(shape)))
        return name

    def output(self, name: str, value: str, shape: Sequence[Dimension]) -> None:
        """Give out a floating-point value under a name."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"{name} (output)"))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))

    def weight(self, name: str, array: np.ndarray) -> str:
        """A weight of the model, in single precision unless it is of integers or doubles."""
        full = self._root._name(name)
        if full in self._root.weights:
            raise AireError(f"The graph has two weights named {full}.")
        self._root.weights[full] = np.ascontiguousarray(array)
        return full

    def constant(self, array: np.ndarray | float) -> str:
        """Numbers that belong to the graph rather than to the model; equal ones are kept once."""
        values = np.asarray(array, np.float32) if isinstance(array, float) else np.ascontiguousarray(array)
        root, key = self._root, (str(values.dtype), values.shape, values.tobytes())
        if key not in root._constants:
            name = root._constants[key] = f"constant.{len(root._constants)}"
            root.weights[name] = values
        return root._constants[key]

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output; returns that."""
        return self.ops(1, kind, *inputs, **attributes)[0]

    def ops(self, outputs: int, kind: str, *inputs: str, **attributes: Any) -> list[str]:
        """An operator with several outputs."""
        name = self._fresh(kind)
        names = [name] if outputs == 1 else [f"{name}.{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return names

    def scan(self, step: Step, state: str, inputs: Sequence[str], axis: int, reverse: bool = False) -> tuple[str, str]:
        """The recurrence (state, inputs_t) -> (state, output_t) along an axis: the last state, and all outputs."""
        body = Graph(self.opset, self)
        names = [self._fresh("scan") for _ in range(1 + len(inputs))]
        body.inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
        results = step(body, names[0], names[1:])
        body.outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
        way = int(reverse)
        last, outputs = self.ops(
            2,
            "Scan",
            state,
            *inputs,
            body=helper.make_graph(body.nodes, "step", body.inputs, body.outputs),
            num_scan_inputs=len(inputs),
            scan_input_axes=[axis] * len(inputs),
            scan_output_axes=[axis],
            scan_input_directions=[way] * len(inputs),
            scan_output_directions=[way],
        )
        return last, outputs

    def size(self, value: str, axis: int) -> str:
        """The length of an axis, as an array of one integer."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def reshape(self, value: str, *shape: int | str) -> str:
        """To a shape of numbers (0 as it was, -1 what is left) and of lengths in the graph."""
        if all(isinstance(part, int) for part in shape):
            return self.op("Reshape", value, self.ints(*(int(part) for part in shape)))
        parts = [self.ints(part) if isinstance(part, int) else part for part in shape]
        return self.op("Reshape", value, self.op("Concat", *parts, axis=0))

    def model(self, about: Mapping[str, str]) -> ModelProto:
        """The whole as a model. about: what is written into its metadata."""
        if sum(array.nbytes for array in self.weights.values()) > LARGEST:
            raise AireError("The model has more than 2 GB of weights, which one ONNX file cannot hold.")
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "model", self.inputs, self.outputs, weights)
        versions = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=versions, producer_name="aireprune")
        model.ir_version = helper.find_min_ir_version_for(versions, ignore_unknown=True)
        helper.set_model_props(model, dict(about))
        return model

    def _fresh(self, kind: str) -> str:
        self._root._numbers += 1
        return self._root._name(f"{kind}.{self._root._numbers}")

    def _name(self, name: str) -> str:
        return ".".join((*self._scope, name))


def _element(kind: type) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
