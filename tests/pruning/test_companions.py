"""What goes with a pruned model: plan, card, licence, tokenizer; from files and from memory."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from foreign_models import MODELS, transformers_model
from small_tokenizers import LEARNT_FROM, save_tokenizer

import aireprune
from aireprune import AireError
from aireprune.pruning.plan import Plan

ORIGINAL = "---\nlicense: apache-2.0\ntags: [mamba]\n---\n# The original\n"
TOKENS = torch.randint(1, 40, (2, 30), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "somewhere" / "mamba"
    transformers_model("Mamba", state_size=6, vocab_size=300).save_pretrained(made)  # type: ignore[operator]
    save_tokenizer(made)
    (made / "README.md").write_text(ORIGINAL)
    (made / "LICENSE").write_text("licence")
    return made


def front(folder: Path) -> Any:
    return yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])


def test_a_pruned_folder(folder: Path) -> None:
    out = folder.parent / "half"
    aireprune.prune_file(folder, out, ratio=0.5)
    assert front(out) == {
        "base_model": "mamba",
        "license": "apache-2.0",
        "library_name": "transformers",
        "tags": ["mamba", "aireprune", "pruned"],
    }
    for name in ("LICENSE", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (out / name).read_bytes() == (folder / name).read_bytes()
    assert (out / "README.base.md").read_text() == ORIGINAL
    text = (out / "README.md").read_text()
    assert "somewhere" not in text, "the place of a folder is nobody's business"
    assert str(Path.home()) not in text


def test_every_readme_of_a_chain_is_kept(folder: Path) -> None:
    once, twice = folder.parent / "once", folder.parent / "twice"
    aireprune.prune_file(folder, once, ratio=0.3)
    aireprune.prune_file(once, twice, ratio=0.3)
    assert (twice / "README.base.base.md").read_text() == ORIGINAL
    assert (twice / "README.base.md").read_text() == (once / "README.md").read_text()
    assert front(twice)["tags"] == ["mamba", "aireprune", "pruned"]


def test_other_kinds_have_no_card(tmp_path: Path) -> None:
    aireprune.prune_file("zoo:listops-s5", tmp_path / "half", ratio=0.5)
    assert not (tmp_path / "half" / "README.md").exists()


def test_the_card_of_a_calibrated_folder_says_what_was_measured(folder: Path) -> None:
    out, tokens = folder.parent / "half", np.random.default_rng(0).integers(1, 300, (24, 20))
    aireprune.prune_file(folder, out, ratio=0.5, calibrate=tokens)
    text = (out / "README.md").read_text()
    assert "of the first choices are the original's" in text
    assert "| layer | states | kept | measured error |" in text
    assert "--calibrate SOURCE" in text


def test_the_metric_goes_into_the_card(folder: Path, aire: Any) -> None:
    out, text = folder.parent / "half", folder.parent / "text.txt"
    text.write_text(f"{LEARNT_FROM}. " * 200)
    code, _, err = aire("prune", folder, "-o", out, "--ratio", 0.5, "--text", text)
    assert code == 0, err
    card = (out / "README.md").read_text()
    assert "On text.txt: " in card
    assert "| bits per byte | " in card
    assert "somewhere" not in card


def test_a_command_that_fails_leaves_no_card(folder: Path, aire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out, text = folder.parent / "half", folder.parent / "text.txt"
    text.write_text(f"{LEARNT_FROM}. " * 20)

    def fail(*args: Any, **kwargs: Any) -> None:
        assert (out / "README.md").is_file(), "judged once it is written"
        raise AireError("judging fails")

    monkeypatch.setattr("aireprune.experiments.evaluation.evaluate_model", fail)
    code, _, err = aire("prune", folder, "-o", out, "--ratio", 0.5, "--text", text)
    assert (code, err.splitlines()[-1]) == (1, "aire: judging fails")
    assert not out.exists()


@pytest.mark.parametrize("layout", ["uniform", "adaptive"])
def test_save_pretrained_keeps_the_plan(folder: Path, layout: str) -> None:
    """As it is, copied and pickled; stock code loads what has one size, aireprune.load everything."""
    from transformers import AutoModelForCausalLM

    full = AutoModelForCausalLM.from_pretrained(folder)
    small = aireprune.prune(full, ratio=0.4, layout=layout)
    for name, model in (("out", small), ("copy", copy.deepcopy(small)), ("again", pickle.loads(pickle.dumps(small)))):
        out = folder.parent / name
        model.save_pretrained(out)
        assert Plan.load(out / "plan.json") == small.plan
        assert front(out)["base_model"] == "mamba"
        assert front(out)["license"] == "apache-2.0"
        loaded = aireprune.load(out)
        torch.testing.assert_close(loaded(TOKENS).logits, small(TOKENS).logits, atol=1e-5, rtol=1e-5)
    card = (folder.parent / "out" / "README.md").read_text()
    if layout == "uniform":
        assert 'AutoModelForCausalLM.from_pretrained("out")' in card
        stock = AutoModelForCausalLM.from_pretrained(folder.parent / "out")
        torch.testing.assert_close(stock(TOKENS).logits, small(TOKENS).logits, atol=1e-5, rtol=1e-5)
    else:
        assert len({len(layer.kept) for layer in small.plan.layers}) > 1
        assert 'aireprune.load("out")' in card
    assert "plan.json" not in [path.name for path in folder.iterdir()]


def test_a_copy_saves_itself(tmp_path: Path) -> None:
    small = aireprune.prune(MODELS["mamba"](), ratio=0.5)
    other = copy.deepcopy(small)
    with torch.no_grad():
        other.backbone.embeddings.weight.zero_()
    other.save_pretrained(tmp_path / "out")
    assert not aireprune.load(tmp_path / "out").backbone.embeddings.weight.any()


def test_a_card_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    aireprune.prune(MODELS["mamba"](), ratio=0.5).save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "plan.json").is_file()
