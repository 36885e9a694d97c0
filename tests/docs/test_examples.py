"""The examples run, on models made here."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from foreign_models import transformers_model
from pages import ROOT
from small_models import mamba
from small_tokenizers import LEARNT_FROM, save_tokenizer

import aireprune
from aireprune.models.s4d import S4DConfig, S4DModel, initialize

DOCUMENT = f"{LEARNT_FROM}. " * 9
TASK = """
task: documents
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: bits_per_byte}}]
"""


def test_the_harness_and_evaluate_agree(tmp_path: Path) -> None:
    """The harness puts the end-of-text token before a document, so evaluate gets it as the first token."""
    pytest.importorskip("lm_eval", reason="lm_eval is not installed (pip install 'aireprune[eval]')")
    folder, tasks = tmp_path / "model", tmp_path / "tasks"
    transformers_model("Mamba", state_size=6, vocab_size=300).save_pretrained(folder)
    tokenizer = save_tokenizer(folder)
    tasks.mkdir()
    (tasks / "documents.jsonl").write_text(json.dumps({"text": DOCUMENT}) + "\n")
    (tasks / "documents.yaml").write_text(TASK.format(data=tasks / "documents.jsonl"))
    command = [sys.executable, ROOT / "examples" / "lm_eval_harness.py", folder]
    options = ["--tasks", "documents", "--include-path", tasks]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run([*command, *options], env={**os.environ, **offline}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    harness = json.loads(done.stdout)["documents"]["bits_per_byte,none"]
    ids = [tokenizer.eos_token_id, *tokenizer(DOCUMENT, add_special_tokens=False)["input_ids"]]
    np.save(tmp_path / "tokens.npy", np.array([ids]))
    found = aireprune.evaluate(folder, text=tmp_path / "tokens.npy")
    bits = found.score.metric.value * (len(ids) - 1) / len(DOCUMENT.encode())
    assert math.isclose(harness, bits, rel_tol=1e-4)


def test_streaming_audio(tmp_path: Path) -> None:
    """Both versions give at the end what they give for the whole, and the pruned one remembers less."""
    model = initialize(S4DModel(S4DConfig(d_input=1, d_output=3, h=6, n=16, layers=2))).eval()
    aireprune.save(model, tmp_path / "model")
    command = [sys.executable, ROOT / "examples" / "streaming_audio_s4d.py", tmp_path / "model", "--seconds", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert max(found[name]["difference to the whole"] for name in ("full", "pruned")) < 1e-5
    assert found["pruned"]["state bytes"] < found["full"]["state bytes"]


def test_onnx_whole_and_step_by_step_agree(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'aireprune[onnx]')")
    aireprune.save(mamba(), tmp_path / "model")
    command = [sys.executable, ROOT / "examples" / "onnx_runtime.py", tmp_path / "model", "--out", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1].rpartition(" ")[2]) < 1e-5
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["step.onnx", "whole.onnx"]


def test_a_chat_remembers_what_was_said(tmp_path: Path) -> None:
    transformers_model("Mamba", state_size=6, vocab_size=300).save_pretrained(tmp_path / "model")
    save_tokenizer(tmp_path / "model")
    aireprune.prune_file(tmp_path / "model", tmp_path / "small", ratio=0.5)
    command = [sys.executable, ROOT / "examples" / "chat_on_cpu.py", tmp_path / "small", "--int8", "--temperature", "0"]
    done = subprocess.run(
        [*command, "--max-new-tokens", "6"], input="a state\nand another\n\n", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = [re.search(r"tokens in .* after (\d+) of prompt, logits within", line) for line in done.stdout.splitlines()]
    first, second = (int(found.group(1)) for found in told if found)
    assert second > first
