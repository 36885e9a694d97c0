"""Our S4D: the original architecture, masked = removed, training, and the public checkpoint."""

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

from aireprune.errors import AireError
from aireprune.families import FAMILIES, Units, find_layers
from aireprune.families.s4d import S4D
from aireprune.kernels import s4d as ops
from aireprune.models import s4d as module
from aireprune.models.arrays import ModuleArrays
from aireprune.models.editing import edited
from aireprune.models.s4d import S4DConfig, S4DModel, initialize


def small(seed: int = 0, **changes: object) -> S4DModel:
    config = {"d_input": 3, "d_output": 4, "h": 12, "n": 10, "layers": 3, **changes}
    return initialize(S4DModel(S4DConfig(**config)), seed).eval()  # type: ignore[arg-type]


def inputs(length: int = 60) -> torch.Tensor:
    return torch.randn(2, length, 3, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("granularity", ["mode", "state"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.4])
@torch.inference_mode()
def test_masked_is_removed_is_padded(granularity: str, share: float) -> None:
    """Down to layers with a single state, and with none."""
    model, rng = small(), np.random.default_rng(1)
    arrays = ModuleArrays(model)
    layers = find_layers(arrays, {}, Units(granularity=granularity))
    assert [layer.states for layer in layers] == [60 if granularity == "mode" else 5] * 3
    edits: dict[str, dict[str, object]] = {"masked": {}, "removed": {}, "padded": {}}
    sizes = []
    for layer in layers:
        count = int(np.ceil(share * layer.states))
        kept = np.sort(rng.choice(layer.states, count, replace=False))
        sizes.append(S4D().stored(layer, kept))
        for name, cut in FAMILIES["s4d"].cuts(layer).items():
            edits["masked"][name] = lambda values, cut=cut, kept=kept: cut.mask(values, kept)
            edits["removed"][name] = lambda values, cut=cut, kept=kept: cut.remove(values, kept)
            edits["padded"][name] = lambda values, cut=cut, kept=kept: cut.remove(values, kept, 5)
    masked = edited(model, layers, edits["masked"], (5, 5, 5))(inputs())
    assert not torch.allclose(masked, model(inputs()), rtol=1e-3)
    removed = edited(model, layers, edits["removed"], sizes)
    assert [layer.kernel.C.shape[1] for layer in removed.s4_layers] == sizes
    torch.testing.assert_close(removed(inputs()), masked, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        edited(model, layers, edits["padded"], (5, 5, 5))(inputs()), masked, rtol=1e-5, atol=1e-5
    )


def test_the_model_runs_by_convolution_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(prenorm=True)
    with torch.inference_mode():
        expected = model(inputs())
        monkeypatch.setattr(ops, "scan_is_faster", lambda *sizes: False)
        torch.testing.assert_close(model(inputs()), expected, rtol=1e-4, atol=1e-5)


def test_it_is_the_original_architecture() -> None:
    """One post-norm block by the book: kernel by its definition, convolution, GELU, 1x1 convolution, GLU, norm."""
    model = small(layers=1).double()
    x = inputs().double()
    layer = model.s4_layers[0]
    z = model.encoder(x).transpose(1, 2)  # (b, h, L)
    a = -torch.exp(layer.kernel.log_A_real) + 1j * layer.kernel.A_imag
    dt_a = a * torch.exp(layer.kernel.log_dt)[:, None]
    c = torch.view_as_complex(layer.kernel.C) * (torch.exp(dt_a) - 1) / a
    k = 2 * torch.einsum("hn,hnl->hl", c, torch.exp(dt_a[..., None] * torch.arange(60))).real
    y = torch.fft.irfft(torch.fft.rfft(k, n=120) * torch.fft.rfft(z, n=120), n=120)[..., :60] + z * layer.D[:, None]
    mixed = torch.conv1d(torch.nn.functional.gelu(y), layer.output_linear[0].weight, layer.output_linear[0].bias)
    y = torch.nn.functional.glu(mixed, dim=-2)
    z = model.norms[0]((z + y).transpose(1, 2))
    torch.testing.assert_close(model(x), model.decoder(z.mean(1)), rtol=1e-10, atol=1e-10)


def test_padding_does_not_change_the_answer() -> None:
    model, x = small(), inputs()
    padded = torch.cat([x, torch.randn(2, 20, 3)], dim=1)
    with torch.inference_mode():
        torch.testing.assert_close(model(padded, torch.tensor([60, 60])), model(x), rtol=1e-5, atol=1e-5)
        tokens = torch.tensor([[0, 2, 1]])
        torch.testing.assert_close(model(tokens), model(torch.nn.functional.one_hot(tokens, 3).float()))


def test_it_trains() -> None:
    model = small(dropout=0.1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(0)
    losses = []
    for _ in range(25):
        loss = torch.nn.functional.cross_entropy(model(inputs()), torch.tensor([1, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert losses[-1] < losses[0] / 2


def test_compile_and_export() -> None:
    check_compiled_and_exported_model(small(layers=2), inputs(9))


def test_export_with_any_length() -> None:
    model = small(layers=1)
    with torch.no_grad():
        length = torch.export.Dim("length", min=2, max=4096)
        exported = torch.export.export(model, (inputs(9),), dynamic_shapes={"x": {1: length}})
        torch.testing.assert_close(exported.module()(inputs(30)), model(inputs(30)))


def test_autocast() -> None:
    check_model_under_autocast(small(layers=2).train(), draw(2, 9, 3))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch itself
def test_forward_mode() -> None:
    check_forward_mode(small(layers=1), draw(2, 5, 3))


def test_configuration_from_shapes_and_dictionaries() -> None:
    config = S4DConfig(3, 4, 12, 10, 3, prenorm=True).with_states((5, 0, 2))
    assert S4DConfig.from_dict(config.to_dict()) == config
    shapes = {name: tuple(tensor.shape) for name, tensor in S4DModel(config).state_dict().items()}
    assert S4DConfig.infer(shapes, {"prenorm": True}) == config
    with pytest.raises(AireError, match="has no h, n"):
        S4DConfig.from_dict({"d_input": 1, "d_output": 2, "layers": 1})
    with pytest.raises(AireError, match="states lists 1 layers"):
        config.with_states((1,))
    with pytest.raises(AireError, match="encoder"):
        S4DConfig.infer({})


def test_the_public_checkpoint() -> None:
    weights, images = shared("checkpoints/s4d_scifar_rgb.pth"), shared("cifar10_rgb_test2000.npz")
    tensors = torch.load(weights, weights_only=True)["model"]
    model = S4DModel(S4DConfig.infer({name: tuple(tensor.shape) for name, tensor in tensors.items()})).eval()
    model.load_state_dict(tensors)
    with np.load(images) as data:
        x, y = data["x"][:50].reshape(50, 1024, 3) / 255.0, data["y"][:50]
    x = torch.tensor((x - (0.4914, 0.4822, 0.4465)) / (0.2023, 0.1994, 0.2010), dtype=torch.float32)
    with torch.inference_mode():
        logits = model(x)
        assert (logits.argmax(-1).numpy() == y).mean() >= 0.8
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "s4d", ops.s4d_fft)
            torch.testing.assert_close(model(x[:4]), logits[:4], rtol=1e-3, atol=1e-4)
