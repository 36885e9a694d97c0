"""Running ONNX files with onnxruntime on the CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.exports.onnx.selective import LINEAR_ATTENTION
from aireprune.exports.onnx.states import States

ERRORS_ONLY = 3  # of onnxruntime's levels of logging


def open_session(path: Path, opset: int, threads: int = 0) -> Any:
    """A session of onnxruntime. threads: of one operator; 0 as many as there are cores."""
    if opset >= LINEAR_ATTENTION:
        os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"  # read by onnxruntime when it loads a file
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as problem:
        first = str(problem).strip().splitlines()[0]
        raise AireError(f"onnxruntime {onnxruntime.__version__} cannot load the file: {first[:300]}") from problem


class OnnxModel(nn.Module):
    """A file that takes whole sequences, called as the model is from which it was made: model(x, lengths) -> logits."""

    def __init__(self, session: Any, config: Any) -> None:
        super().__init__()
        self.session, self.config = session, config
        self.nothing = nn.Parameter(torch.empty(0), requires_grad=False)  # tells the device, as parameters do

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        name = self.session.get_inputs()[0].name
        given = {} if lengths is None else {"lengths": lengths.numpy()}
        (logits,) = self.session.run(["logits"], {name: x.numpy(), **given})
        return torch.from_numpy(logits)


class Stream:
    """A file that takes one step at a time, with the states of `batch` streams."""

    def __init__(self, session: Any, states: States, batch: int) -> None:
        self.session = session
        self.states = {name: np.zeros((batch, *shape), np.float32) for name, shape in states.shapes.items()}

    def step(self, x: np.ndarray) -> np.ndarray:
        """x (b, d_input) or tokens (b,) -> logits of the sequences so far."""
        name = self.session.get_inputs()[0].name
        logits, *after = self.session.run(None, {name: x, **self.states})
        self.states = dict(zip(self.states, after, strict=True))
        found: np.ndarray = logits
        return found
