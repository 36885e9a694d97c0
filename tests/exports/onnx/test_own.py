"""The graph of every family gives the model's outputs: whole, step by step, pruned, at any batch and length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from torch import nn

import aireprune
from aireprune.errors import AireError
from aireprune.exports.request import ExportRequest
from aireprune.models.lru import LRUModel
from aireprune.models.lru import initialize as initialize_lru
from aireprune.models.lru_config import LRUConfig

pytest.importorskip("onnx", reason="onnx is not installed (pip install 'aireprune[onnx]')")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'aireprune[onnx]')")

import onnx

from aireprune.exports.onnx.running import OnnxModel, Stream, open_session
from aireprune.exports.onnx.write import build_graph


def lru(**changes: object) -> LRUModel:
    config = {"d_input": 2, "d_output": 3, "h": 6, "n": 10, "layers": 2, **changes}
    return initialize_lru(LRUModel(LRUConfig.from_dict(config))).eval()


def empty_layer() -> nn.Module:
    """An S5 model whose first layer has no states."""
    full = small_models.s5()
    plan = aireprune.plan(full, method="aire", ratio=0.5, reduce="truncate", layout="adaptive")
    layers = (replace(plan.layers[0], kept=()), replace(plan.layers[1], kept=(0, 2, 5)))
    return aireprune.prune(full, plan=replace(plan, layers=layers, min_states=0))


MODELS: dict[str, Callable[[], nn.Module]] = {
    **small_models.MODELS,
    "s5 full_glu, last step": lambda: small_models.s5(activation="full_glu", mode="last"),
    "s5 half_glu1, tokens": lambda: small_models.s5(activation="half_glu1", mode="tokens"),
    "s5 gelu, documents": lambda: small_models.s5(activation="gelu", retrieval=True),
    "lru": lru,
    "lru two ways": lambda: lru(bidirectional=True),
    "mamba2 one group": lambda: small_models.mamba2(n_groups=1, d_state=40),
    "mamba2 projected": lambda: small_models.mamba2(states=(5, 12), projected_from=(12, 12)),
}
ONE_WAY = [name for name in MODELS if "two ways" not in name and "documents" not in name]
every_model = pytest.mark.parametrize("name", MODELS)


def built(model: nn.Module, path: Path, tokens: bool = False, **choices: Any) -> tuple[Any, Any]:
    """The graph as a file that passed onnx's checker: session and states."""
    request = ExportRequest(to="onnx", **choices)
    graph, states = build_graph(model, request, tokens)
    made = graph.model({})
    onnx.checker.check_model(made, full_check=request.opset < 27)
    onnx.save(made, path)
    return open_session(path, request.opset, threads=1), states


def same(found: np.ndarray, wanted: torch.Tensor) -> None:
    scale = float(wanted.abs().max())
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5 * scale, rtol=0)


@torch.no_grad()
def agree(model: nn.Module, session: Any, sizes: tuple[tuple[int, int], ...]) -> None:
    run = OnnxModel(session, model.config)
    for batch, length in sizes:
        x = torch.randn(batch, length, 2, generator=torch.Generator().manual_seed(length))
        same(run(x).numpy(), model(x))
        if model.config.mode != "tokens":
            lengths = torch.randint(1, length + 1, (batch,), generator=torch.Generator().manual_seed(0))
            same(run(x, lengths).numpy(), model(x, lengths))


@every_model
def test_whole_sequences(name, tmp_path):
    """Shorter than a chunk, a whole number of chunks, and neither."""
    model = MODELS[name]()
    session, _ = built(model, tmp_path / "model.onnx")
    agree(model, session, ((2, 1), (2, 5), (4, 64), (2, 150)))


@pytest.mark.parametrize("name", ["s5", "s4d", "mamba"])
def test_pruned_layers_of_different_sizes(name, tmp_path):
    full = MODELS[name]()
    model = aireprune.prune(full, ratio=0.45, layout="adaptive")
    session, _ = built(model, tmp_path / "model.onnx")
    agree(model, session, ((3, 70),))
    session, states = built(model, tmp_path / "step.onnx", step=True)
    streamed(model, session, states)


def test_a_layer_without_states(tmp_path):
    model = empty_layer()
    session, _ = built(model, tmp_path / "model.onnx")
    agree(model, session, ((2, 40),))
    session, states = built(model, tmp_path / "step.onnx", step=True)
    assert "layers.0.seq.state" not in states.shapes
    streamed(model, session, states)


@torch.no_grad()
def streamed(model: nn.Module, session: Any, states: Any, steps: int = 9) -> None:
    """Every step's answer is that of the sequence so far."""
    x = torch.randn(3, steps, 2, generator=torch.Generator().manual_seed(1))
    stream = Stream(session, states, 3)
    for t in range(steps):
        wanted = model(x[:, : t + 1])
        same(stream.step(x[:, t].numpy()), wanted[:, -1] if model.config.mode == "tokens" else wanted)


@pytest.mark.parametrize("name", ONE_WAY)
def test_step_by_step(name, tmp_path):
    model = MODELS[name]()
    session, states = built(model, tmp_path / "model.onnx", step=True)
    streamed(model, session, states)


@torch.no_grad()
def test_states_of_mamba_are_those_of_its_caches(tmp_path):
    """A sequence that began in torch goes on in onnxruntime."""
    for name in ("mamba", "mamba2"):
        model = MODELS[name]()
        session, states = built(model, tmp_path / f"{name}.onnx", step=True)
        x = torch.randn(2, 7, 2, generator=torch.Generator().manual_seed(1))
        caches: Any = model.new_caches(2)  # type: ignore[operator]
        features: Any = model.features(x[:, :6], caches)  # type: ignore[operator]
        stream = Stream(session, states, 2)
        for number, cache in enumerate(caches):
            stream.states[f"layers.{number}.inputs"] = cache.inputs.numpy()
            stream.states[f"layers.{number}.state"] = cache.state.numpy()
        stream.states["pool.sum"], stream.states["pool.steps"] = features.sum(1).numpy(), np.full((2, 1), 6, np.float32)
        same(stream.step(x[:, 6].numpy()), model(x))


@pytest.mark.parametrize("name", ["s5", "lru", "mamba", "mamba2"])
def test_tokens_stand_for_one_hot_vectors(name, tmp_path):
    model = MODELS[name]()
    session, _ = built(model, tmp_path / "model.onnx", tokens=True)
    tokens = torch.randint(0, 2, (3, 37), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        same(OnnxModel(session, model.config)(tokens).numpy(), model(tokens))


@pytest.mark.parametrize("name", ["mamba", "mamba2", "mamba2 one group", "mamba2 projected"])
def test_linear_attention_of_opset_27(name, tmp_path):
    model = MODELS[name]()
    try:
        session, _ = built(model, tmp_path / "model.onnx", opset=27)
    except AireError as problem:
        pytest.skip(f"this onnxruntime does not run LinearAttention: {problem}")
    kinds = {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert "LinearAttention" in kinds
    assert "Scan" not in kinds
    agree(model, session, ((3, 41),))


@pytest.mark.parametrize("name", ["s5", "s4d", "mamba2"])
def test_every_released_opset(name, tmp_path):
    model = MODELS[name]()
    for opset in (20, 23, 26):
        session, _ = built(model, tmp_path / "model.onnx", opset=opset)
        agree(model, session, ((2, 20),))


@pytest.mark.parametrize("name", ["s5 two ways", "lru two ways", "s5 gelu, documents"])
def test_what_cannot_be_run_step_by_step_is_refused(name, tmp_path):
    with pytest.raises(AireError, match=r"Leave out step=True"):
        built(MODELS[name](), tmp_path / "model.onnx", step=True)


def test_long_memories_stay_accurate(tmp_path):
    """Poles close to the unit circle, over many chunks."""
    model = small_models.s5(dt_min=0.0001, dt_max=0.001)
    session, _ = built(model, tmp_path / "model.onnx")
    agree(model, session, ((1, 3000),))
