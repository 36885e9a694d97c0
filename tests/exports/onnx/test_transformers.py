"""transformers' language models as ONNX graphs: whole and step by step, tied or not, with a size for every layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from foreign_models import MODELS, make_plan, prune_module, transformers_model

import aireprune
from aireprune.errors import AireError
from aireprune.exports.request import ExportRequest
from aireprune.families.mamba2 import PROJECTIONS

pytest.importorskip("transformers")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'aireprune[onnx]')")

import onnx

from aireprune.exports.onnx.running import Stream, open_session
from aireprune.exports.onnx.write import build_graph

TIED = {"tie_word_embeddings": True}
VARIANTS = {
    "mamba": MODELS["mamba"],
    "mamba2": MODELS["mamba2"],
    "mamba tied": lambda: transformers_model("Mamba", state_size=6, **TIED),
    "mamba2 tied, steps limited": lambda: transformers_model(
        "Mamba2", state_size=6, num_heads=4, head_dim=16, n_groups=1, chunk_size=8, time_step_limit=(0.01, 0.4), **TIED
    ),
}


def session_of(model: Any, path: Any, **choices: Any) -> tuple[Any, Any]:
    graph, states = build_graph(model, ExportRequest(to="onnx", **choices), tokens=True)
    onnx.save(graph.model({}), path)
    return open_session(path, 20, threads=1), states


def wanted(model: Any, tokens: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        logits: np.ndarray = model(torch.from_numpy(tokens), use_cache=False).logits.numpy()
    return logits


def same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, atol=5e-5 * float(np.abs(expected).max()), rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("pruned", [False, True])
def test_logits_are_those_of_transformers(name, pruned, tmp_path):
    """Of the stock forward of transformers; pruned, every layer has another size."""
    model = VARIANTS[name]()
    if pruned:
        model = prune_module(model, *make_plan(model))
    session, _ = session_of(model, tmp_path / "model.onnx")
    for batch, length in ((1, 3), (3, 47)):
        tokens = np.random.default_rng(length).integers(0, 40, (batch, length))
        same(session.run(None, {"tokens": tokens})[0], wanted(model, tokens))
    session, states = session_of(model, tmp_path / "step.onnx", step=True)
    stream = Stream(session, states, 3)
    # the stock forward of a whole sequence limits steps as the graph does
    found = np.stack([stream.step(tokens[:, t]) for t in range(8)], 1)
    same(found, wanted(model, tokens)[:, :8])


def test_projected_layers(tmp_path):
    """Four gates of each of two groups are made from six values; stock transformers has no such layers."""
    model: Any = MODELS["mamba2"]()
    for block in model.backbone.layers:
        for name in PROJECTIONS:
            setattr(block.mixer, name, torch.nn.Parameter(torch.randn(2 * 4, 6)))
    session, _ = session_of(model, tmp_path / "model.onnx")
    tokens = np.random.default_rng(0).integers(0, 40, (2, 21))
    same(session.run(None, {"tokens": tokens})[0], wanted(aireprune.accelerate(model), tokens))


def test_tied_embeddings_are_stored_once(tmp_path):
    sizes = {}
    for tied in (False, True):
        model = transformers_model("Mamba", state_size=6, vocab_size=4000, tie_word_embeddings=tied)
        session_of(model, tmp_path / "model.onnx")
        sizes[tied] = (tmp_path / "model.onnx").stat().st_size
    assert sizes[False] - sizes[True] > 0.9 * 4 * 4000 * 32


def test_other_architectures_are_refused_by_name():
    with pytest.raises(AireError, match=r"JambaForCausalLM has no ONNX form here.*MambaForCausalLM"):
        build_graph(MODELS["jamba"](), ExportRequest(to="onnx"), tokens=True)
