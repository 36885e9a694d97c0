"""Our Mamba language models in transformers: the same logits, or a refusal that says what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import aireprune
from aireprune.errors import AireError
from aireprune.models.huggingface_export import export_folder
from aireprune.models.mamba import MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig

transformers = pytest.importorskip("transformers")

LANGUAGE = {"d_input": 256, "d_output": 256, "d_model": 16, "layers": 3, "mode": "tokens", "final_norm": "rms"}


def language_model(**changes) -> MambaModel:
    """A random model that fits, with nothing at its neutral value but the bias of its head."""
    torch.manual_seed(0)
    model = initialize(MambaModel(MambaConfig(**{**LANGUAGE, **changes})), 3).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        if model.config.mode == "tokens":
            model.classifier.bias.zero_()
    return model


def tokens(count: int = 256) -> torch.Tensor:
    return torch.randint(0, count, (2, 33), generator=torch.Generator().manual_seed(1))


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"bias": True, "conv_bias": False, "d_conv": 3},
        {"d_inner": 48, "dt_rank": 5, "d_state": 7},
        {"states": (6, 6, 6)},
        {"d_input": 50, "d_output": 50},
    ],
)
def test_transformers_puts_out_the_same_logits(tmp_path: Path, changes) -> None:
    model = language_model(**changes)
    export_folder(model, tmp_path / "out")
    loaded = transformers.MambaForCausalLM.from_pretrained(tmp_path / "out").eval()
    x = tokens(model.config.d_input)
    with torch.no_grad():
        assert relative(loaded(x).logits, model(x)) < 1e-4
        changed = x.clone()
        changed[:, 0] += 1
        changed %= model.config.d_input
        assert relative(model(changed), model(x)) > 1e-2  # the comparison sees what differs


def test_a_pruned_model_with_layers_of_different_sizes(tmp_path: Path) -> None:
    model = language_model(states=(2, 5, 0))
    export_folder(model, tmp_path / "out")
    loaded = aireprune.load(tmp_path / "out")
    with torch.no_grad():
        assert relative(loaded(tokens()).logits, model(tokens())) < 1e-4
    with pytest.raises(Exception, match=r"per-layer attribute|mismatch"):
        transformers.MambaForCausalLM.from_pretrained(tmp_path / "out")


def test_the_folder_writes_text(tmp_path: Path) -> None:
    export_folder(language_model(), tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    written = model.generate(**tokenizer("Größe ", return_tensors="pt"), max_new_tokens=4, do_sample=False)
    assert written[0, :8].tolist() == list("Größe ".encode())
    assert written.shape == (1, 12)


def test_models_of_other_tokens_have_no_tokenizer(tmp_path: Path) -> None:
    export_folder(language_model(d_input=50, d_output=50), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors"]
    assert "format" not in json.loads((tmp_path / "out" / "config.json").read_text())


@pytest.mark.parametrize(
    ("changes", "mention"),
    [
        ({"mode": "pool"}, "mode 'pool'"),
        ({"mode": "pool", "retrieval": True}, "compares two documents"),
        ({"residual": False}, "no residual connections"),
        ({"norm": "layer"}, "norm 'layer' in front"),
        ({"norm": "none"}, "norm 'none' in front"),
        ({"d_output": 10}, "256 tokens in but 10 out"),
        ({"d_inner": 40}, "d_inner 40"),
        ({"final_norm": "layer"}, "final_norm 'layer'"),
        ({"final_norm": "none"}, "final_norm 'none'"),
    ],
)
def test_what_transformers_does_not_have_is_refused_by_name(tmp_path: Path, changes, mention) -> None:
    with pytest.raises(AireError, match=mention):
        export_folder(language_model(**changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bias_of_the_head_is_refused(tmp_path: Path) -> None:
    model = language_model()
    with torch.no_grad():
        model.classifier.bias[7] = 0.1
    with pytest.raises(AireError, match="a head with a bias"):
        export_folder(model, tmp_path / "out")


def test_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AireError, match="class Linear"):
        export_folder(torch.nn.Linear(2, 2), tmp_path / "out")
