"""The measurements of S5 and of checkpoints run, at toy sizes; their numbers are not judged here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import aireprune
from aireprune.bench.model import bench_model, state_bytes
from aireprune.bench.s5 import LRA, bench_layer, bench_models, bench_scaling, chosen, make_model
from aireprune.errors import AireError
from aireprune.models.mamba import MambaModel
from aireprune.models.mamba_config import MambaConfig

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it
TINY = replace(LRA["text"], h=8, n=10, length=20, d_input=3)


def test_ideal_gains_are_those_of_the_arithmetic():
    ideal = {name: round(size.ideal, 2) for name, size in LRA.items()}
    assert ideal == {"listops": 1.07, "text": 2.25, "retrieval": 1.75, "image": 1.82, "pathfinder": 2.76, "pathx": 2.52}


def test_layer_compares_the_same_layer():
    result = bench_layer(TINY, batch=2, repeats=1, other_repeats=1)
    assert result["difference"] < 1e-5  # masked = removed
    assert {"ours", "masked", "removed", "products"} <= set(result["seconds"])
    assert len(result["ours to products"]) == 3


def test_models():
    result = bench_models("text", TINY, batch=2, repeats=1, other_repeats=1)
    dense, removed = (make_model(TINY, pairs) for pairs in (TINY.pairs, TINY.kept))
    assert result["parameters"] == [sum(p.numel() for p in model.parameters()) for model in (dense, removed)]
    assert result["paper"]["speedup on an H100"] == 2.49


def test_scaling_covers_a_factor_of_sixteen():
    result = bench_scaling(replace(TINY, n=8), batch=4, repeats=1)
    assert list(result["batch"]["seconds"]) == ["1", "2", "4", "8", "16"]
    assert list(result["states"]["seconds"]) == ["2", "4", "8", "16", "32"]
    assert list(result["length"]["seconds"]) == ["5", "10", "20", "40", "80"]


def test_unknown_size():
    with pytest.raises(AireError, match="Known are listops"):
        chosen(["imagenet"])


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
    aireprune.save(MambaModel(config), tmp_path / "lm")
    found = bench_model([tmp_path / "lm"], None, batch=2, length=9, repeats=1, memory=False)["models"]["lm"]
    assert [name.split(",")[0] for name in found["seconds"]] == ["prefill", "prefill", "decode", "decode"]
    assert all(value > 0 for value in found["per second"].values())


def test_suite_commands(aire, monkeypatch):
    monkeypatch.setitem(LRA, "text", TINY)
    for what in ("layer", "model"):
        status, out, _ = aire("bench", what, "--suite", "lra", "--task", "text", "--repeats", 1, "--other-repeats", 1)
        assert status == 0
        assert "text" in out
    assert aire("bench", "scaling", "--task", "text", "--repeats", 1)[0] == 0
    status, _, err = aire("bench", "layer", "--suite", "imagenet")
    assert status
    assert "lra" in err


def test_transformers_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=13, hidden_size=8, num_hidden_layers=1, state_size=4)
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path / "hf")
    found = bench_model([tmp_path / "hf"], None, batch=2, length=9, repeats=1, memory=False)["models"]["hf"]
    assert found["state bytes per sequence"] == 4 * (16 * 4 + 16 * 4)  # states and the window of the convolution
    assert "decode, batch 1, tokens" in found["per second"]
