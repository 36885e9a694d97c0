"""A job and the engine it is for: what is refused before any work, and what rounding does to the ratio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from foreign_models import transformers_model
from helpers import GOLDEN
from safetensors.numpy import load_file

import aireprune
from aireprune.errors import AireError, Notice

pytest.importorskip("transformers")
HEADS = {"num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf")
    transformers_model("Mamba", state_size=16).save_pretrained(folder / "mamba")
    transformers_model("Mamba", state_size=300, num_hidden_layers=1).save_pretrained(folder / "wide")
    transformers_model("FalconMamba", state_size=16).save_pretrained(folder / "falcon")
    transformers_model("Mamba2", state_size=96, **HEADS).save_pretrained(folder / "mamba2")
    transformers_model("Mamba2", state_size=24, **HEADS).save_pretrained(folder / "narrow")
    return folder


def kept(folder: Path) -> int:
    """N of a Mamba-2 folder, from its tensors."""
    channels = load_file(folder / "model.safetensors")["backbone.layers.0.mixer.conv1d.weight"].shape[0]
    return int(channels - 64) // 4


@pytest.mark.parametrize(
    ("target", "ratio", "states", "told"),
    [
        ("mlx", 0.6, 64, r"multiples of 32, because mlx takes no others: 33.3 % of the states went where 60.0 % were"),
        ("mlx", 0.8, 32, "66.7 % of the states went where 80.0 %"),
        ("vllm", 0.6, 38, "layers have 38 states; vllm needs multiples of 32 with its FlashInfer kernels"),
        ("llama.cpp", 0.6, 38, "llama.cpp needs 128 or 256 on CUDA; CPUs take any size"),
    ],
)
def test_mamba2(folders: Path, tmp_path: Path, target: str, ratio: float, states: int, told: str) -> None:
    with pytest.warns(Notice, match=told):
        plan = aireprune.prune_file(folders / "mamba2", tmp_path / "out", ratio=ratio, target=target)
    assert (plan.layout, plan.target) == ("uniform", target)
    assert kept(tmp_path / "out") == states
    assert aireprune.load(tmp_path / "out")(torch.ones(1, 4, dtype=torch.long)).logits.isfinite().all()


def test_transformers_takes_any_size_and_says_nothing(folders: Path, tmp_path: Path, recwarn: Any) -> None:
    aireprune.prune_file(folders / "mamba2", tmp_path / "out", ratio=0.6, target="transformers")
    assert kept(tmp_path / "out") == 38
    assert not [one for one in recwarn if issubclass(one.category, Notice)]


def test_powers_of_two_for_a_module() -> None:
    model = transformers_model("Mamba2", state_size=96, **HEADS)
    with pytest.warns(Notice, match=r"powers of two from 16 on, because mamba-ssm is no faster in between: 66.7 %"):
        small = aireprune.prune(model, ratio=0.75, target="mamba-ssm")
    assert {len(layer.kept) for layer in small.plan.layers} == {2 * 32}


def test_the_same_plan_with_and_without_what_was_rounded(folders: Path) -> None:
    """Rounding adds the next best states; those of the plan without it are all there."""
    free = aireprune.plan(folders / "mamba2", ratio=0.6, layout="uniform")
    with pytest.warns(Notice):
        made = aireprune.plan(folders / "mamba2", ratio=0.6, target="mlx")
    assert all(set(a.kept) < set(b.kept) for a, b in zip(free.layers, made.layers, strict=True))


def test_layers_of_several_sizes_are_padded(folders: Path, tmp_path: Path) -> None:
    aireprune.prune_file(folders / "mamba", tmp_path / "varied", ratio=0.5, layout="adaptive", method="aire")
    plan = aireprune.prune_file(tmp_path / "varied", tmp_path / "out", ratio=0.2, target="transformers")
    assert plan.layout == "padded"
    sizes = {
        values.shape[1]
        for name, values in load_file(tmp_path / "out" / "model.safetensors").items()
        if name.endswith("A_log")
    }
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("name", "choices", "sentence"),
    [
        ("mamba", {"target": "vlm"}, "no target 'vlm'. Did you mean vllm"),
        ("mamba", {"target": "vllm", "layout": "adaptive"}, "one state size for all layers, and layout='adaptive'"),
        (
            "mamba",
            {"target": "vllm", "allocate": "measured", "calibrate": torch.ones(4, 8)},
            "allocate='measured' decides",
        ),
        ("mamba", {"target": "official-s5"}, "has mamba layers .*, and official-s5 has s5 alone"),
        ("mamba", {"target": "mamba-ssm"}, "is a folder of transformers, .* has to be a folder of mamba_ssm or"),
        ("mamba", {"target": "mlx", "mask": True}, "A mask leaves every size as it is"),
        (
            "falcon",
            {"target": "llama.cpp"},
            "model of type falcon_mamba; for llama.cpp files are made of mamba and mamba2",
        ),
        ("mamba2", {"target": "mlx", "round_to": 8}, "target='mlx' decides how sizes are rounded: leave out round_to="),
        ("mamba2", {"target": "mlx", "reduce": "projected", "calibrate": torch.ones(4, 8)}, "mlx has no place for"),
        ("narrow", {"target": "mlx"}, "has 24 states, and mlx takes multiples of 32"),
        ("wide", {"target": "vllm", "ratio": 0.1}, "would keep 270 of 300 .* any up to 256: a ratio of 0.15 or more"),
        ("wide", {"target": "vllm", "min_states": 280}, "would keep 280 of 300"),
        ("wide", {"target": "vllm", "ratio": 0.0}, "would keep 300 of 300"),
    ],
)
def test_refused(folders: Path, tmp_path: Path, name: str, choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AireError, match=sentence):
        aireprune.prune_file(folders / name, tmp_path / "out", **{"ratio": 0.5, **choices})
    assert not (tmp_path / "out").exists()


def test_refused_before_anything_is_measured(folders: Path, tmp_path: Path) -> None:
    def inputs() -> Any:
        raise AssertionError("inputs were read")
        yield

    for name, target in (("mamba", "s5-pytorch"), ("narrow", "mlx")):
        with pytest.raises(AireError, match=r"states|layers"):
            aireprune.prune_file(folders / name, tmp_path / "out", ratio=0.5, target=target, calibrate=inputs())


def test_the_output_has_to_be_of_a_kind_that_the_engine_reads(tmp_path: Path) -> None:
    source = GOLDEN / "uni_ln_full_glu_last.msgpack"
    with pytest.raises(AireError, match="in our own format, which official-s5 does not read: give it the suffix"):
        aireprune.prune_file(source, tmp_path / "out", ratio=0.5, target="official-s5")
    with pytest.raises(AireError, match=r"is a Flax checkpoint .* for s5-pytorch it has to be a file of PyTorch"):
        aireprune.prune_file(source, tmp_path / "out.msgpack", ratio=0.5, target="s5-pytorch")
    assert aireprune.prune_file(source, tmp_path / "out", ratio=0.5, target="onnx").layout == "adaptive"


def test_a_plan_says_what_it_was_made_for(folders: Path, tmp_path: Path) -> None:
    plan = aireprune.plan(folders / "mamba", ratio=0.5, target="vllm")
    plan.save(tmp_path / "plan.json")
    assert aireprune.Plan.load(tmp_path / "plan.json") == plan
    (tmp_path / "plan.json").write_text(plan.to_json().replace('"vllm"', '"abacus"'))
    with pytest.raises(AireError, match="no target 'abacus'"):
        aireprune.Plan.load(tmp_path / "plan.json")
