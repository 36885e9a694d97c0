"""Audio through an S4D as it comes in, chunk by chunk, by the full model and by a pruned one.

    python examples/streaming_audio_s4d.py                     # an untrained S4D with 10 classes
    python examples/streaming_audio_s4d.py my-s4d/ --ratio 0.5 --chunk-ms 20

MODEL is anything `aireprune.load` opens as an S4D that reads one number per step. The sound is made here: a tone whose
pitch glides, 16,000 samples a second. After every chunk the models say what they make of the sound so far; at its end
that is what they say about the whole of it.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch

import aireprune
from aireprune.models.s4d import S4DConfig, S4DModel, initialize

RATE = 16_000  # samples per second


def glide(seconds: float) -> torch.Tensor:
    """A tone from 200 to 600 Hz, (1, samples, 1)."""
    t = torch.arange(int(seconds * RATE)) / RATE
    phase = 2 * torch.pi * (200 * t + 200 * t * t / seconds)
    return (torch.sin(phase) * torch.sin(torch.pi * t / seconds))[None, :, None]


def listen(model: Any, sound: torch.Tensor, chunk: int) -> dict[str, Any]:
    """The answers while the sound comes in, and what that took."""
    next(model.stream([sound[:, :chunk]]))  # kernels are compiled and weights laid out before the clock runs
    began = time.perf_counter()
    stream = model.stream(sound.split(chunk, dim=1))
    answers = torch.cat([answer for answer in stream])
    seconds = time.perf_counter() - began
    with torch.no_grad():
        whole = model(sound)
    return {
        "times faster than the sound": round(sound.shape[1] / RATE / seconds, 1),
        "milliseconds per chunk": round(1e3 * seconds / len(answers), 3),
        "state bytes": stream.state.nbytes,
        "difference to the whole": float((answers[-1] - whole[0]).abs().max() / whole.abs().max()),
        "said last": int(answers[-1].argmax()),
    }


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", nargs="?", help="a checkpoint; an untrained model otherwise")
parser.add_argument("--ratio", type=float, default=0.5, help="share of states that the pruned model loses")
parser.add_argument("--chunk-ms", type=float, default=20, help="milliseconds of sound in a chunk")
parser.add_argument("--seconds", type=float, default=2, help="length of the sound")
arguments = parser.parse_args()

full: Any = (
    initialize(S4DModel(S4DConfig(d_input=1, d_output=10, h=64, n=64, layers=4, prenorm=True))).eval()
    if arguments.model is None
    else aireprune.load(arguments.model)
)
smaller = aireprune.prune(full, ratio=arguments.ratio)
sound, chunk = glide(arguments.seconds), max(1, round(RATE * arguments.chunk_ms / 1000))
print(json.dumps({"full": listen(full, sound, chunk), "pruned": listen(smaller, sound, chunk)}, indent=1))
