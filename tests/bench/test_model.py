"""Checkpoints side by side, at toy sizes; the times are not judged here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import aireprune
from aireprune.bench.lra import LRA, make_model
from aireprune.bench.model import bench_model, state_bytes
from aireprune.models.mamba import MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig

TINY = replace(LRA["text"], h=8, n=10, length=20, d_input=3)


def test_state_bytes():
    assert state_bytes(make_model(TINY, TINY.pairs)) == 6 * 2 * 5 * 2 * 4  # layers, directions, pairs, parts, bytes


@pytest.fixture
def checkpoints(tmp_path):
    model = make_model(TINY, TINY.pairs)
    aireprune.save(model, tmp_path / "dense")
    aireprune.save(aireprune.prune(model, ratio=0.5), tmp_path / "pruned")
    return tmp_path / "dense", tmp_path / "pruned"


def test_model_command(checkpoints, aire):
    status, out, _ = aire("bench", "model", *checkpoints, "--length", 16, "--repeats", 1, "--no-memory", "--json")
    assert status == 0
    dense, pruned = json.loads(out)["models"].values()
    assert dense["parameters"] > pruned["parameters"]
    assert dense["states"] == 2 * pruned["states"]
    assert dense["state bytes per sequence"] == 2 * pruned["state bytes per sequence"]
    assert set(dense["seconds"]) == {"latency, batch 1", "throughput, sequences"}
    status, out, _ = aire("bench", "model", *checkpoints, "--length", 16, "--repeats", 1, "--no-memory")
    assert status == 0
    assert "times faster" in out


def test_peak_memory(checkpoints):
    found = bench_model(checkpoints[1:], None, batch=1, length=16, repeats=1)["models"]["pruned"]["peak memory"]
    assert found["peak"] >= found["loaded"] > 0


def test_language_model(tmp_path):
    config = MambaConfig(d_input=11, d_output=11, d_model=8, layers=1, mode="tokens")
    aireprune.save(initialize(MambaModel(config), 0), tmp_path / "lm")
    found = bench_model([tmp_path / "lm"], None, batch=2, length=9, repeats=1, memory=False)["models"]["lm"]
    assert [name.split(",")[0] for name in found["seconds"]] == ["prefill", "prefill", "decode", "decode"]
    assert all(value > 0 for value in found["per second"].values())


def test_transformers_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=13, hidden_size=8, num_hidden_layers=1, state_size=4)
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path / "hf")
    found = bench_model([tmp_path / "hf"], None, batch=2, length=9, repeats=1, memory=False)["models"]["hf"]
    assert found["state bytes per sequence"] == 4 * (16 * 4 + 16 * 4)  # states and the window of the convolution
    assert "decode, batch 1, tokens" in found["per second"]
