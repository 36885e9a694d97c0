"""Our Mamba: decoding against prefill, training, and the public checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from shared_data import shared
from torch_checks import (
    check_compiled_and_exported_model,
    check_forward_mode,
    check_model_under_autocast,
    draw,
)

from aireprune.families import find_layers
from aireprune.models.arrays import ModuleArrays
from aireprune.models.mamba import MambaModel, initialize
from aireprune.models.mamba_config import MambaConfig

SMALL = MambaConfig(d_input=3, d_output=5, d_model=8, layers=2, d_state=4)


def test_decoding_continues_a_prefix() -> None:
    model = initialize(
        MambaModel(MambaConfig.from_dict({**SMALL.to_dict(), "mode": "tokens", "states": [4, 2]}))
    ).eval()
    tokens = torch.randint(0, 3, (2, 12))
    with torch.no_grad():
        whole, caches = model(tokens), model.new_caches(2)
        parts = [model(piece, caches=caches) for piece in tokens.split([5, 4, 1, 1, 1], dim=1)]
    assert whole.shape == (2, 12, 5)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-5, atol=1e-5)


def test_a_cache_holds_the_last_inputs_only() -> None:
    layer = initialize(MambaModel(SMALL)).eval().layers[0]
    cache = layer.new_cache(2)
    with torch.no_grad():
        layer(draw(2, 500, 8), cache)
    assert cache.inputs.untyped_storage().nbytes() <= 2 * cache.inputs.numel() * 4


def test_compile_and_export() -> None:
    check_compiled_and_exported_model(initialize(MambaModel(SMALL)), draw(2, 9, 3))


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's RMSNorm about its own slow path
def test_autocast() -> None:
    check_model_under_autocast(initialize(MambaModel(SMALL)), draw(2, 9, 3))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch itself
def test_forward_mode() -> None:
    check_forward_mode(initialize(MambaModel(SMALL)), draw(2, 5, 3))


@pytest.mark.parametrize("mode", ["pool", "last"])
def test_lengths_ignore_padding(mode: str) -> None:
    model = initialize(MambaModel(MambaConfig.from_dict({**SMALL.to_dict(), "mode": mode}))).eval()
    x = torch.randn(2, 9, 3)
    with torch.no_grad():
        torch.testing.assert_close(model(x, torch.tensor([9, 6]))[1], model(x[1:, :6])[0], rtol=1e-4, atol=1e-5)


def test_training_lowers_the_loss() -> None:
    model = initialize(MambaModel(SMALL)).train()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    x, y, losses = torch.randn(16, 20, 3), torch.arange(16) % 5, []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_configuration_round_trip() -> None:
    for config in (
        SMALL,
        SMALL.with_states((3, 1)),
        MambaConfig(1, 2, 8, 1, residual=False, norm="none", final_norm="rms"),
    ):
        model = MambaModel(config)
        shapes = {name: tuple(t.shape) for name, t in model.state_dict().items()}
        inferred = MambaConfig.infer(shapes)
        assert inferred.state_sizes == config.state_sizes
        MambaModel(inferred).load_state_dict(model.state_dict())
        assert MambaConfig.from_dict(config.to_dict()) == config
        assert [layer.states for layer in find_layers(ModuleArrays(model), {})] == list(config.state_sizes)


def test_public_checkpoint() -> None:
    checkpoint, digits = shared("checkpoints/mamba_smnist.pth"), shared("mnist.npz")
    weights = torch.load(checkpoint, weights_only=True, map_location="cpu")["model_state_dict"]
    model = MambaModel(MambaConfig.infer({name: tuple(t.shape) for name, t in weights.items()})).eval()
    model.load_state_dict(weights)
    with np.load(digits) as data:
        x, y = data["xte"][:200].reshape(200, 784, 1), data["yte"][:200]
    inputs = torch.from_numpy((x.astype(np.float32) / 255 - 0.1307) / 0.3081)
    with torch.no_grad():
        correct = (model(inputs).argmax(-1).numpy() == y).mean()
    assert correct == pytest.approx(0.98)
