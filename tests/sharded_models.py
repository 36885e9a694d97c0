"""A Mamba in the layout of Hugging Face, in many shards, made of random numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HIDDEN, INNER, STATES, RANK, TOKENS = 16, 32, 8, 2, 24


def make_sharded(folder: Path, layers: int = 20, shards: int = 8) -> Path:
    """A folder with an index, whose shards cut through layers."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (0.2 * rng.standard_normal(shape)).astype(np.float32)

    arrays = {"backbone.embeddings.weight": normal(TOKENS, HIDDEN), "backbone.norm_f.weight": normal(HIDDEN)}
    for number in range(layers):
        mixer = {
            "A_log": np.log(np.tile(np.arange(1.0, STATES + 1, dtype=np.float32), (INNER, 1))) + normal(INNER, STATES),
            "D": normal(INNER),
            "conv1d.weight": normal(INNER, 1, 4),
            "conv1d.bias": normal(INNER),
            "in_proj.weight": normal(2 * INNER, HIDDEN),
            "x_proj.weight": normal(RANK + 2 * STATES, INNER),
            "dt_proj.weight": normal(INNER, RANK),
            "dt_proj.bias": normal(INNER) - 3,
            "out_proj.weight": normal(HIDDEN, INNER),
        }
        arrays |= {f"backbone.layers.{number}.mixer.{name}": values for name, values in mixer.items()}
        arrays[f"backbone.layers.{number}.norm.weight"] = normal(HIDDEN)
    folder.mkdir(parents=True)
    names, weight_map = list(arrays), {}
    for number in range(shards):
        some = names[number * len(names) // shards : (number + 1) * len(names) // shards]
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        save_file({name: arrays[name] for name in some}, folder / file)
        weight_map |= dict.fromkeys(some, file)
    index = {"metadata": {"total_size": sum(values.nbytes for values in arrays.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {
        "model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": INNER,
        "state_size": STATES, "time_step_rank": RANK, "conv_kernel": 4, "num_hidden_layers": layers, "vocab_size": TOKENS,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder; the text of a card, which says where it was written, is left out."""
    return {path.name: b"" if path.name == "README.md" else path.read_bytes() for path in sorted(folder.iterdir())}
