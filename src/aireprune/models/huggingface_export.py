"""Our Mamba language models as Hugging Face folders that transformers' MambaForCausalLM loads.

    ours                                    transformers
    input_proj.weight', plus its bias       backbone.embeddings.weight
    norms.i.weight, layers.i.…              backbone.layers.i.norm.weight, backbone.layers.i.mixer.…
    norm.weight, classifier.weight          backbone.norm_f.weight, lm_head.weight

The logits are the same. What MambaForCausalLM does not have is refused, not approximated. Of that, only what stands
behind the stack (a final norm other than RMS, a bias of the head) can be stood in for: by a head that was fitted to the
logits (`aireprune.calibration.head`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from aireprune.errors import AireError
from aireprune.files.folder import write_checkpoint_folder
from aireprune.files.sizes import resized_config
from aireprune.models.arrays import to_numpy
from aireprune.models.byte_tokenizer import BYTES, byte_tokenizer_files
from aireprune.models.mamba import MambaModel
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.selective import RMS_EPSILON


def export_folder(model: nn.Module, target: Path, head: np.ndarray | None = None, overwrite: bool = False) -> None:
    """Write a model as a Hugging Face folder, with a tokenizer if its tokens are bytes.

    head: weights (tokens, d_model) that read the stack through an RMS norm without weights, in place of the model's own
    final norm and head.
    """
    mamba = exportable(model)
    if head is None and (reasons := head_misfits(mamba)):
        raise AireError(
            f"The model has {' and '.join(reasons)}, which transformers' MambaForCausalLM does not have. With inputs to "
            "calibrate with (calibrate=…) a head that it has is fitted to the logits."
        )
    tokenizer = byte_tokenizer_files() if mamba.config.d_input == BYTES else {}
    write_checkpoint_folder(target, _tensors(mamba, head), _config(mamba.config), tokenizer, overwrite)


def exportable(model: nn.Module) -> MambaModel:
    """The model, if all of it but its final norm and head fits MambaForCausalLM; else an error that says what does not."""
    if not isinstance(model, MambaModel):
        raise AireError(
            f"The model is of class {type(model).__name__}, for which transformers has no counterpart. "
            "Only our Mamba language models can become transformers folders."
        )
    config = model.config
    misfits = {
        f"mode {config.mode!r} (one answer per sequence)": config.mode != "tokens",
        "a head that compares two documents": config.retrieval,
        "no residual connections": not config.residual,
        f"norm {config.norm!r} in front of its layers": config.norm != "rms",
        f"{config.d_input} tokens in but {config.d_output} out": config.d_input != config.d_output,
        f"d_inner {config.inner}, no multiple of d_model {config.d_model},": config.inner % config.d_model != 0,
    }
    found = [what for what, here in misfits.items() if here]
    if found:
        raise AireError(
            f"The model has {' and '.join(found)}; transformers' MambaForCausalLM is a language model with residual "
            "connections around RMS norm and mixer, so this model cannot become one."
        )
    return model


def head_misfits(model: MambaModel) -> list[str]:
    """What stands behind the stack that MambaForCausalLM does not have."""
    found = []
    if model.config.final_norm != "rms":
        found.append(f"final_norm {model.config.final_norm!r} where only 'rms' fits")
    if bool(to_numpy(model.get_parameter("classifier.bias")).any()):
        found.append("a head with a bias")
    return found


def _tensors(model: MambaModel, head: np.ndarray | None) -> dict[str, np.ndarray]:
    own = {name: to_numpy(tensor) for name, tensor in model.state_dict().items()}
    d_model = model.config.d_model
    last = {
        "backbone.norm_f.weight": own["norm.weight"] if head is None else np.ones(d_model, np.float32),
        "lm_head.weight": own["classifier.weight"] if head is None else head.astype(np.float32),
    }
    first = {"backbone.embeddings.weight": own["input_proj.weight"].T + own["input_proj.bias"]}
    blocks: dict[str, np.ndarray] = {}
    for name, values in own.items():
        kind, _, rest = name.partition(".")
        number, _, leaf = rest.partition(".")
        if kind in ("norms", "layers"):
            blocks[f"backbone.layers.{number}.{'norm' if kind == 'norms' else 'mixer'}.{leaf}"] = values
    return {name: np.ascontiguousarray(values) for name, values in (first | blocks | last).items()}


def _config(config: MambaConfig) -> dict[str, Any]:
    """config.json; layers of different sizes are described as in a pruned Hugging Face folder."""
    plain = {
        "architectures": ["MambaForCausalLM"],
        "model_type": "mamba",
        "dtype": "float32",
        "vocab_size": config.d_input,
        "hidden_size": config.d_model,
        "state_size": config.d_state,
        "num_hidden_layers": config.layers,
        "expand": config.inner // config.d_model,
        "conv_kernel": config.d_conv,
        "time_step_rank": config.rank,
        "use_bias": config.bias,
        "use_conv_bias": config.conv_bias,
        "layer_norm_epsilon": RMS_EPSILON,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    names = [f"backbone.layers.{number}.mixer" for number in range(config.layers)]
    resized = resized_config("huggingface", plain, names, config.state_sizes)
    assert resized is not None
    return resized
