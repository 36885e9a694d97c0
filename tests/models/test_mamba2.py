"""Our Mamba-2: transformers' mixer, decoding against prefill, pruning and training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_checks import check_compiled_and_exported_model, check_forward_mode, check_model_under_autocast, draw

import aireprune
from aireprune.errors import AireError
from aireprune.families import find_layers
from aireprune.models import mamba2
from aireprune.models.arrays import ModuleArrays
from aireprune.models.mamba2 import Mamba2Model, initialize
from aireprune.models.mamba2_config import Mamba2Config

SMALL = Mamba2Config(d_input=3, d_output=5, d_model=8, layers=2, d_state=6, head_dim=4, n_groups=2)


def small(seed: int = 0, **changes: object) -> Mamba2Model:
    model = initialize(Mamba2Model(Mamba2Config.from_dict({**SMALL.to_dict(), **changes})), seed).eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.norm.weight.uniform_(0.5, 1.5)
    return model


@pytest.mark.parametrize(("groups", "bias"), [(1, False), (2, True)])
def test_the_layer_is_transformers_mixer(groups, bias):
    transformers = pytest.importorskip("transformers")
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    config = transformers.Mamba2Config(
        hidden_size=16, expand=2, num_heads=8, head_dim=4, n_groups=groups, state_size=12, conv_kernel=3, use_bias=bias,
        num_hidden_layers=1, chunk_size=16,
    )  # fmt: skip
    torch.manual_seed(0)
    mixer, u = Mamba2Mixer(config, layer_idx=0).eval(), draw(2, 37, 16)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        mixer.A_log.abs_()
    ours = Mamba2Model(Mamba2Config(1, 1, 16, 1, d_state=12, head_dim=4, n_groups=groups, d_conv=3, bias=bias)).layers[
        0
    ]
    ours.load_state_dict(mixer.state_dict())
    with torch.no_grad():
        expected = mixer(u)
        torch.testing.assert_close(ours(u), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    gradients = []
    for module in (mixer, ours):
        module.zero_grad()
        module(u).square().mean().backward()
        gradients.append({name: parameter.grad for name, parameter in module.named_parameters()})
    for name, gradient in gradients[0].items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-5 * scale, msg=name)


PROJECTED = {"states": [4, 2], "projected_from": [6, 6]}


@pytest.mark.parametrize("changes", [{"states": [6, 2]}, PROJECTED])
def test_decoding_continues_a_prefix(changes):
    model = small(mode="tokens", **changes)
    tokens = torch.arange(24).reshape(2, 12) % 3
    with torch.no_grad():
        whole, caches = model(tokens), model.new_caches(2)
        parts = [model(piece, caches=caches) for piece in tokens.split([5, 4, 1, 1, 1], dim=1)]
    assert whole.shape == (2, 12, 5)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-5, atol=1e-5)


def test_a_projection_onto_some_of_the_states_is_their_removal():
    full, x, kept = small(), draw(2, 40, 3), [0, 2, 5]
    less = small(states=[3, 6], projected_from=[6, 6])
    less.load_state_dict(full.state_dict(), strict=False)
    for matrix in (less.layers[0].B_proj, less.layers[0].C_proj):
        matrix.data = torch.eye(6)[kept].repeat(2, 1)
    assert less.layers[1].B_proj is None
    plan = aireprune.plan(full, ratio=0.25)
    layers = [replace(plan.layers[0], kept=(0, 2, 5, 6, 8, 11)), replace(plan.layers[1], kept=tuple(range(12)))]
    removed = aireprune.prune(full, replace(plan, layers=tuple(layers)))
    with torch.no_grad():
        torch.testing.assert_close(less(x), removed(x), rtol=1e-5, atol=1e-5)


def test_mixing_states_changes_nothing():
    """B' = R'B and C' = S'C with R'S = I, on a layer whose other states are silent."""
    model, x = small(states=[4, 6], projected_from=[6, 6], n_groups=1), draw(2, 40, 3)
    layer, mix = model.layers[0], torch.linalg.qr(draw(4, 4))[0] @ torch.diag(torch.tensor([0.5, 2.0, 1.0, 3.0]))
    with torch.no_grad():
        layer.B_proj.copy_(torch.eye(6)[:4])
        layer.C_proj.copy_(torch.eye(6)[:4])
        expected = model(x)
        layer.B_proj.copy_(mix.T @ torch.eye(6)[:4])
        layer.C_proj.copy_(torch.linalg.inv(mix) @ torch.eye(6)[:4])
        torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)


def test_a_projected_model_is_stored_pruned_and_trained(tmp_path: Path):
    model, x = small(**PROJECTED), draw(2, 40, 3)
    aireprune.save(model, tmp_path / "projected")
    loaded = aireprune.load(tmp_path / "projected")
    assert loaded.config.state_sizes == (4, 2)
    assert loaded.config.gate_sizes == (6, 6)
    plan = aireprune.plan(model, ratio=0.5)
    masked, removed = aireprune.prune(model, plan, mask=True), aireprune.prune(model, plan)
    assert sum(removed.config.state_sizes) == 3
    assert removed.config.gate_sizes == (6, 6)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), model(x), rtol=0, atol=0)
        torch.testing.assert_close(removed(x), masked(x), rtol=1e-4, atol=1e-5)
    model.train()(x).square().mean().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_a_cache_holds_the_last_inputs_only():
    layer = small().layers[0]
    cache = layer.new_cache(2)
    with torch.no_grad():
        layer(draw(2, 500, 8), cache)
    assert cache.inputs.untyped_storage().nbytes() <= 2 * cache.inputs.numel() * 4


@pytest.mark.parametrize("groups", [1, 2])
def test_masked_is_removed_is_stored(tmp_path: Path, groups: int):
    model, x = small(n_groups=groups, d_state=16), draw(2, 40, 3)
    plan = aireprune.plan(model, ratio=0.6)
    masked, removed = aireprune.prune(model, plan, mask=True), aireprune.prune(model, plan)
    aireprune.save(removed, tmp_path / "small")
    loaded = aireprune.load(tmp_path / "small")
    sizes = tuple(len(layer.kept) // groups for layer in plan.layers)
    assert loaded.config.state_sizes == removed.config.state_sizes == sizes
    assert sizes != (16, 16)
    with torch.no_grad():
        full, expected = model(x), masked(x)
        torch.testing.assert_close(removed(x), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(loaded(x), removed(x), rtol=0, atol=0)
    assert not torch.allclose(full, expected, rtol=1e-2)


def test_a_pruned_model_trains_on():
    pruned = aireprune.prune(small(), ratio=0.5).train()
    pruned(draw(2, 9, 3)).square().mean().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape and p.grad.any() for p in pruned.parameters())


@pytest.mark.parametrize("mode", ["pool", "last"])
def test_lengths_ignore_padding(mode):
    model, x = small(mode=mode), draw(2, 9, 3)
    with torch.no_grad():
        torch.testing.assert_close(model(x, torch.tensor([9, 6]))[1], model(x[1:, :6])[0], rtol=1e-4, atol=1e-5)


def test_compile_and_export():
    check_compiled_and_exported_model(small(), draw(2, 9, 3))


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's RMSNorm about its own slow path
def test_autocast():
    check_model_under_autocast(small(), draw(2, 9, 3))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch itself
def test_forward_mode():
    check_forward_mode(small(), draw(2, 5, 3))


def test_training_lowers_the_loss():
    model = small().train()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    x, y, losses = draw(16, 20, 3), torch.arange(16) % 5, []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_the_seed_decides_every_weight():
    first, again, other = (small(seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    constant = ("norm.weight", "norm.bias", "D", "norms.0.weight", "norms.1.weight")
    assert not any(torch.equal(first[name], other[name]) for name in first if not name.endswith(constant))


def test_poles_and_steps_at_the_start():
    layer = small(d_model=256, dt_min=0.01, dt_max=0.2).layers[0]  # 128 heads
    step, pole = torch.nn.functional.softplus(layer.dt_bias.detach()), torch.exp(layer.A_log.detach())
    assert 0.0099 < step.min() < 0.012
    assert 0.17 < step.max() < 0.2001
    assert 1 <= pole.min() < 2
    assert 15 < pole.max() <= 16
    assert (layer.D == 1).all()


def test_configuration_round_trip():
    projected = Mamba2Config.from_dict({**SMALL.to_dict(), **PROJECTED})
    for config in (
        SMALL,
        SMALL.with_states((3, 1)),
        projected,
        Mamba2Config(1, 2, 8, 1, head_dim=8, norm="layer", bias=True),
    ):
        model = Mamba2Model(config)
        shapes = {name: tuple(t.shape) for name, t in model.state_dict().items()}
        inferred = Mamba2Config.infer(shapes, config.n_groups)
        assert inferred.state_sizes == config.state_sizes
        assert inferred.gate_sizes == config.gate_sizes
        Mamba2Model(inferred).load_state_dict(model.state_dict())
        assert Mamba2Config.from_dict(config.to_dict()) == config
        layers = find_layers(ModuleArrays(model), config.to_dict())
        assert [layer.states for layer in layers] == [config.n_groups * size for size in config.state_sizes]


@pytest.mark.parametrize("change", [{"head_dim": 3}, {"n_groups": 3}, {"head_dim": 0}])
def test_heads_that_do_not_fit(change):
    with pytest.raises(AireError, match="16 channels cannot be divided into"):
        Mamba2Config.from_dict({**SMALL.to_dict(), **change})


@pytest.mark.parametrize("sizes", [[6], [3, 6], [6, 6, 6]])
def test_projections_that_do_not_fit(sizes):
    with pytest.raises(AireError, match="projected_from is"):
        small(states=[4, 4], projected_from=sizes)


def test_what_is_not_our_layout():
    shapes = {name: tuple(t.shape) for name, t in small().state_dict().items() if name != "layers.1.norm.weight"}
    with pytest.raises(AireError, match=r"not a Mamba-2 in our layout: tensor layers\.1\.norm\.weight is missing"):
        Mamba2Config.infer(shapes, 2)


def test_a_layer_learns_as_one_function_unless_its_norm_is_watched(monkeypatch):
    """The gradients are the same either way."""
    model = initialize(Mamba2Model(Mamba2Config(1, 3, 8, 2, d_state=5, head_dim=4, n_groups=2)))
    x, calls = torch.randn(2, 60, 1, generator=torch.Generator().manual_seed(0)), []
    layer = mamba2.mamba2_training
    monkeypatch.setattr(mamba2, "mamba2_training", lambda *given: calls.append(1) or layer(*given))

    def gradients():
        return torch.autograd.grad(model(x).square().sum(), list(model.parameters()))

    found = gradients()
    assert len(calls) == 2
    for each in model.layers:
        each.norm.register_forward_hook(lambda *seen: None)
    for one, other in zip(found, gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert len(calls) == 2
