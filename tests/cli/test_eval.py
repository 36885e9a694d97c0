"""aire eval: tables, JSON, and refusals by one sentence."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import toy_experiments
from foreign_models import transformers_model
from small_tokenizers import LEARNT_FROM, save_tokenizer

import aireprune
from aireprune.models.create import new_model


@pytest.fixture
def models(tmp_path):
    """The folders of a model of bytes and of the same model with half its states."""
    model = new_model(replace(toy_experiments.LANGUAGE, d_input=256, d_output=256), 0).eval()
    aireprune.save(model, tmp_path / "full")
    aireprune.save(aireprune.prune(model, ratio=0.5), tmp_path / "small")
    return tmp_path / "full", tmp_path / "small"


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face folder with its tokenizer."""
    pytest.importorskip("transformers")
    transformers_model("FalconMamba", state_size=6, vocab_size=300).save_pretrained(tmp_path / "falcon")
    save_tokenizer(tmp_path / "falcon")
    return tmp_path / "falcon"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(f"{LEARNT_FROM}. " * 30, encoding="utf-8")
    return path


def test_a_text(aire, models, text):
    full, _ = models
    code, out, err = aire("eval", full, "--text", text, "--window", 50, "--count", 9, "--json")
    assert code == 0, err
    document = json.loads(out)
    found = aireprune.evaluate(full, text=text, window=50, count=9)
    assert document == {"schema": 1, "model": str(full), "full": None, **json.loads(json.dumps(found.to_dict()))}
    code, out, _ = aire("eval", full, "--text", text, "--window", 50, "--count", 9)
    assert f"{text}: 9 windows of 50 tokens" in out
    assert f"{found.score.metric.value:.4f}" in next(
        line for line in out.splitlines() if line.startswith("bits per byte")
    )
    assert f"{found.score.perplexity.value:,.2f}" in next(
        line for line in out.splitlines() if line.startswith("perplex")
    )


def test_beside_the_full_model(aire, models, text):
    full, small = models
    arguments = ("eval", small, "--against", full, "--text", text, "--window", 50)
    code, out, err = aire(*arguments)
    assert code == 0, err
    _, document, _ = aire(*arguments, "--json")
    against = json.loads(document)["against"]
    assert f"Difference in bits per byte: {against['difference']['value']:+.4f} (" in out
    assert f"{100 * against['agreement']['value']:.2f} % of the next tokens are the same" in out
    assert f"divergence from full: {against['divergence']['value']:.4f} nats" in out
    assert f"Next: aire report {small} --against {full} -o report.html" in out
    assert json.loads(document)["full"] == str(full)


def test_accuracy_in_points(aire, tmp_path):
    model, task = toy_experiments.classification()
    aireprune.save(model, tmp_path / "model")
    arrays = {}
    for part in ("train", "validation", "test"):
        arrays |= {f"{part}_x": task.inputs(getattr(task, part).x), f"{part}_y": getattr(task, part).y}
    np.savez(tmp_path / "task.npz", **arrays)
    code, out, err = aire("eval", tmp_path / "model", "--task", tmp_path / "task.npz", "--against", tmp_path / "model")
    assert code == 0, err
    assert "70 test examples of up to 24 steps" in out
    assert "Difference in accuracy: +0.00 points (-2.72 to +2.72; p = 1)." in out
    assert "100.00 % of the answers are the same" in out


def test_one_window(aire, models, text):
    code, out, err = aire("eval", models[0], "--text", text, "--against", models[0], "--count", 1)
    assert code == 0, err
    assert ": 1 window of 1,024 tokens" in out
    assert "inf" not in out + json.dumps(json.loads(aire("eval", models[0], "--text", text, "--count", 1, "--json")[1]))


def test_a_hugging_face_folder(aire, folder, text):
    code, out, err = aire("eval", folder, "--text", text)
    assert code == 0, err
    found = aireprune.evaluate(folder, text=text)
    assert f"{found.score.metric.value:.4f}" in out
    assert found.bytes_per_token > 1


def test_refusals_are_one_sentence(aire, models, folder, text, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRE_DATA", str(tmp_path))
    (tmp_path / "tinyshakespeare.txt").write_text("to be " * 5000)
    (tmp_path / "latin.txt").write_bytes("größe ".encode("latin-1") * 99)
    (tmp_path / "empty.txt").write_bytes(b"")
    classifier = tmp_path / "classifier"
    aireprune.save(toy_experiments.classification()[0], classifier)
    full = models[0]
    before = sorted(tmp_path.rglob("*"))
    for arguments, mention in (
        (
            (folder, "--task", "lm-mini"),
            "the task consists of bytes, and the model has 300 tokens of its own. Judge it",
        ),
        ((folder, "--task", "lm-mini"), "(--text FILE)"),
        ((classifier, "--text", text), "S5Model does not predict tokens"),
        ((classifier, "--task", "lm-mini"), "does not fit task lm-mini"),
        ((full, "--text", text, "--window", 10**6), "too few for a window of 1000000"),
        ((full, "--text", tmp_path / "empty.txt"), "is empty"),
        ((full, "--text", tmp_path / "latin.txt"), "is not UTF-8 text (byte 2)"),
        ((full, "--text", tmp_path / "no.txt"), "There is no text file"),
        ((full, "--text", text, "--count", 0), "--count 0 is no number"),
        ((full, "--text", text, "--batch", 0), "--batch 0 is no number"),
        ((full, "--text", text, "--window", 0), "--window 0 is no number"),
        ((full, "--task", "lm-mini", "--window", 9), "--window N is for a text (--text FILE)"),
        ((full, "--task", "lm-mini", "--text", text), "either a task (--task NAME) or a text (--text FILE)"),
        ((full, "--text", text, "--against", classifier), "The full model does not fit"),
        ((full,), "either a task"),
    ):
        code, out, err = aire("eval", *arguments)
        said = [line for line in err.splitlines() if line and "%|" not in line]  # bars are transformers'
        assert (code, out, len(said)) == (1, "", 1), (arguments, err)
        assert said[0].startswith("aire: ")
        assert mention in said[0]
    assert sorted(tmp_path.rglob("*")) == before
