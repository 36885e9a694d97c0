"""A model, pruned or not, in onnxruntime: whole sequences, then the same sequence one step at a time.

    pip install "aireprune[onnx]"
    python examples/onnx_runtime.py zoo:smnist-mamba --ratio 0.5

Of the two files that it writes, only onnxruntime and NumPy are needed where they run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

import aireprune

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("checkpoint", help="a classifier or language model that does not run backwards in time")
parser.add_argument("--ratio", type=float, default=0.5, help="share of states to remove first")
parser.add_argument("--out", type=Path, help="a folder for the files; by default they are not kept")
arguments = parser.parse_args()

small = aireprune.prune(arguments.checkpoint, ratio=arguments.ratio)
folder = arguments.out or Path(tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)
for name, step in (("whole", False), ("step", True)):
    print(aireprune.export(small, folder / f"{name}.onnx", step=step, overwrite=True))

whole = onnxruntime.InferenceSession(folder / "whole.onnx")
given = whole.get_inputs()[0]
rng = np.random.default_rng(0)
if given.name == "tokens":
    sequence = rng.integers(0, small.config.d_input, (1, 50))
else:
    sequence = rng.standard_normal((1, 50, small.config.d_input)).astype(np.float32)
(logits,) = whole.run(["logits"], {given.name: sequence})

step = onnxruntime.InferenceSession(folder / "step.onnx")
shapes = json.loads(step.get_modelmeta().custom_metadata_map["aireprune.step_states"])
states = {name: np.zeros((1, *shape), np.float32) for name, shape in shapes.items()}  # a stream that has not begun
for t in range(sequence.shape[1]):
    answer, *after = step.run(None, {given.name: sequence[:, t], **states})
    states = dict(zip(shapes, after, strict=True))

last = logits[:, -1] if logits.ndim == 3 else logits
print(f"largest difference between both: {np.abs(answer - last).max():.1e}")
