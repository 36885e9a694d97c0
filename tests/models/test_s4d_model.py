"""Our S4D: scan = convolution = recurrence, gradients too; masked = removed; the public checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from shared_data import shared

from aireprune.errors import AireError
from aireprune.families import FAMILIES, find_layers
from aireprune.families.s4d import S4D
from aireprune.kernels import s4d as ops
from aireprune.models import s4d as module
from aireprune.models.arrays import ModuleArrays, edit_own
from aireprune.models.s4d import S4DConfig, S4DModel, initialize


def layer_parts(h: int, n: int, length: int, silent: float = 0.0, batch: int = 2) -> list[torch.Tensor]:
    """lam, w, skip, u in double precision; a share of the modes is silent, unevenly over channels."""
    random = torch.Generator().manual_seed(h * n + length)
    draw = lambda *shape: torch.randn(*shape, generator=random, dtype=torch.float64)  # noqa: E731
    lam = torch.polar(torch.exp(-0.3 * torch.rand(h, n, generator=random, dtype=torch.float64)), 3 * draw(h, n))
    w = torch.complex(draw(h, n), draw(h, n))
    w[torch.rand(h, n, generator=random) < silent * 2 * torch.rand(h, 1, generator=random)] = 0
    return [lam, w, draw(h), draw(batch, length, h)]


@pytest.mark.parametrize(("h", "n", "length"), [(16, 4, 300), (5, 7, 129), (40, 3, 128), (9, 1, 1), (1, 6, 50)])
@pytest.mark.parametrize("silent", [0.0, 0.6])
def test_scan_is_convolution_is_recurrence(h: int, n: int, length: int, silent: float) -> None:
    parts = layer_parts(h, n, length, silent)
    expected = ops.s4d_reference(*parts)
    torch.testing.assert_close(ops.s4d_scan(*parts), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ops.s4d_fft(*parts), expected, rtol=1e-10, atol=1e-10)
    single = ops.s4d_scan(*parts[:2], parts[2].float(), parts[3].float())
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_a_single_sequence_is_split_over_threads() -> None:
    parts = layer_parts(70, 5, 300, 0.5, batch=1)
    torch.testing.assert_close(ops.s4d_scan(*parts), ops.s4d_reference(*parts), rtol=1e-10, atol=1e-10)


def test_the_way_is_chosen_by_size() -> None:
    assert ops.scan_is_faster(32, 512, 1024)  # few modes: whatever the batch
    assert ops.scan_is_faster(512, 8, 1024)  # a small batch: making the kernel costs more than the scan
    assert not ops.scan_is_faster(512, 512, 1024)


def test_the_convolution_does_not_wrap_around() -> None:
    u = torch.zeros(1, 8, 1)
    u[0, -1] = 1
    assert ops.convolve(u, torch.ones(1, 8))[0, :-1].abs().max() < 1e-6


def test_the_kernel_stays_accurate_to_its_end() -> None:
    angle = torch.tensor([[2.5, 0.7]], dtype=torch.float64)
    lam = torch.polar(torch.full_like(angle, 1 - 1e-6), angle)
    exact = (torch.exp(torch.log(lam)[..., None] * torch.arange(5000)).sum(1)).real
    found = ops.kernel(lam, torch.ones_like(lam).to(torch.complex64), 5000)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("way", [ops.s4d_scan, ops.s4d_fft])
def test_gradients_are_those_of_the_recurrence(way: object) -> None:
    """Silent modes get gradients as well: they may come back to life in training."""
    parts = layer_parts(11, 3, 140, 0.5)
    weight = torch.randn(parts[3].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradients = []
    for function in (way, ops.s4d_reference):
        leaves = [part.clone().requires_grad_() for part in parts]
        (function(*leaves) * weight).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_the_operator_is_registered_properly() -> None:
    lam, w, skip, u = layer_parts(4, 2, 10)
    arguments = tuple(part.clone().requires_grad_() for part in (lam.real, lam.imag, w.real, w.imag, skip, u))
    torch.library.opcheck(
        ops._scan, arguments, test_utils=("test_schema", "test_autograd_registration", "test_faketensor")
    )


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
    layers = find_layers(arrays, {"granularity": granularity})
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
    masked = edit_own(model, edits["masked"], (5, 5, 5))(inputs())
    assert not torch.allclose(masked, model(inputs()), rtol=1e-3)
    removed = edit_own(model, edits["removed"], sizes)
    assert [layer.kernel.C.shape[1] for layer in removed.s4_layers] == sizes
    torch.testing.assert_close(removed(inputs()), masked, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(edit_own(model, edits["padded"], (5, 5, 5))(inputs()), masked, rtol=1e-5, atol=1e-5)


def test_the_model_runs_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(prenorm=True)
    with torch.inference_mode():
        expected = model(inputs())
        monkeypatch.setattr(ops, "HAVE_NUMBA", False)
        torch.testing.assert_close(model(inputs()), expected, rtol=1e-4, atol=1e-5)


def test_it_is_the_original_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
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
    y = torch.nn.functional.glu(layer.output_linear(torch.nn.functional.gelu(y)), dim=-2)
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
