"""Our LRU: the recurrence it is defined by, minimal-LRU's model, the fused kernel, pruning and training."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch_checks import check_compiled_and_exported_model, check_forward_mode, check_model_under_autocast, draw

import aireprune
from aireprune.errors import AireError
from aireprune.families import find_layers
from aireprune.models.arrays import ModuleArrays
from aireprune.models.lru import LRUModel, initialize
from aireprune.models.lru_config import LRUConfig

SMALL = LRUConfig(d_input=3, d_output=4, h=8, n=12, layers=2, r_max=0.95)


def small(seed: int = 0, **changes: object) -> LRUModel:
    model = initialize(LRUModel(LRUConfig.from_dict({**SMALL.to_dict(), **changes})), seed).eval()
    with torch.no_grad():
        for block in model.layers:
            if hasattr(block.norm, "running_mean"):
                block.norm.running_mean.normal_(0, 0.3)
                block.norm.running_var.uniform_(0.5, 2)
    return model


def recurrence(weights: dict[str, np.ndarray], u: np.ndarray) -> np.ndarray:
    """y (L, h) step by step from the definition; a C with twice the columns reads a second, reversed run."""
    lam = np.exp(-np.exp(weights["nu_log"]) + 1j * np.exp(weights["theta_log"]))
    bu = u @ (np.exp(weights["gamma_log"])[:, None] * (weights["B_re"] + 1j * weights["B_im"])).T

    def run(v: np.ndarray) -> np.ndarray:
        x, states = np.zeros(len(lam), complex), []
        for v_t in v:
            x = lam * x + v_t
            states.append(x)
        return np.array(states)

    x, c = run(bu), weights["C_re"] + 1j * weights["C_im"]
    if c.shape[1] == 2 * len(lam):
        x = np.concatenate([x, run(bu[::-1])[::-1]], axis=1)
    return (x @ c.T).real + weights["D"] * u


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("gradient", [False, True])
def test_the_layer_is_its_recurrence(bidirectional, gradient):
    layer, u = small(bidirectional=bidirectional).double().layers[0].seq, draw(2, 30, 8, dtype=torch.float64)
    weights = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    with torch.set_grad_enabled(gradient):
        found = layer(u).detach().numpy()
    np.testing.assert_allclose(found, [recurrence(weights, row) for row in u.numpy()], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("prenorm", "batchnorm", "bidirectional"), list(itertools.product((True, False), repeat=3)))
@pytest.mark.parametrize("states", [None, [5, 0]])
def test_without_gradients_one_kernel_gives_the_same(prenorm, batchnorm, bidirectional, states):
    model = small(prenorm=prenorm, batchnorm=batchnorm, bidirectional=bidirectional, states=states).double()
    x = draw(2, 130, 3, dtype=torch.float64)
    expected = model(x).detach()
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected, rtol=1e-9, atol=1e-9)


def flax_tree(model: LRUModel) -> dict[str, np.ndarray]:
    """The weights under minimal-LRU's names and in Flax's orientation."""
    leaves = {"running_mean": "mean", "running_var": "var"}
    tree = {}
    for name, tensor in model.state_dict().items():
        *path, leaf = name.replace("layers.", "layers_").replace(".norm.", ".normalization.").split(".")
        if leaf == "num_batches_tracked":
            continue
        norm, seq = path[-1] == "normalization", path[-1] == "seq"
        leaf = leaf if seq or leaf == "bias" else leaves.get(leaf, "scale" if norm else "kernel")
        prefix = "batch_stats" if leaf in ("mean", "var") else "params"
        inner = () if path[0] == "decoder" else ("encoder",)
        values = tensor.numpy()
        tree[".".join([prefix, *inner, *path, leaf])] = values.T.copy() if leaf == "kernel" else values
    return tree


def minimal_lru(tree: dict[str, np.ndarray], x: np.ndarray, prenorm: bool) -> np.ndarray:
    """minimal-LRU's classifier on one sequence (L, d_input), written down from its equations."""

    def dense(name: str, z: np.ndarray) -> np.ndarray:
        return z @ tree[f"params.{name}.kernel"] + tree[f"params.{name}.bias"]

    def normed(name: str, z: np.ndarray) -> np.ndarray:
        stats = f"batch_stats.{name}"
        mean, var = (tree.get(f"{stats}.{leaf}") for leaf in ("mean", "var"))
        eps = 1e-6 if mean is None else 1e-5
        if mean is None:
            mean, var = z.mean(-1, keepdims=True), z.var(-1, keepdims=True)
        return (z - mean) / np.sqrt(var + eps) * tree[f"params.{name}.scale"] + tree[f"params.{name}.bias"]

    z = dense("encoder.encoder", x)
    for number in range(2):
        block = f"encoder.layers_{number}"
        own = f"params.{block}.seq."
        seq = {name.removeprefix(own): array for name, array in tree.items() if name.startswith(own)}
        y = recurrence(seq, normed(f"{block}.normalization", z) if prenorm else z)
        g = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        z = z + dense(f"{block}.out1", g) / (1 + np.exp(-dense(f"{block}.out2", g)))
        z = z if prenorm else normed(f"{block}.normalization", z)
    return dense("decoder", z.mean(0))


@pytest.mark.parametrize("prenorm", [True, False])
@pytest.mark.parametrize("batchnorm", [True, False])
def test_minimal_lru_checkpoints_load(tmp_path: Path, prenorm: bool, batchnorm: bool):
    model, x = small(prenorm=prenorm, batchnorm=batchnorm), draw(1, 20, 3)
    tree = flax_tree(model)
    save_file(tree, tmp_path / "lru.safetensors")
    with pytest.raises(AireError, match=r"do not reveal prenorm \(true or false\); mode"):
        aireprune.load(tmp_path / "lru.safetensors")
    loaded = aireprune.load(tmp_path / "lru.safetensors", config={"prenorm": prenorm, "mode": "pool"})
    assert isinstance(loaded, LRUModel)
    with torch.no_grad():
        np.testing.assert_allclose(loaded(x)[0].numpy(), minimal_lru(tree, x[0].numpy(), prenorm), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_masked_is_removed_is_stored(tmp_path: Path, bidirectional: bool):
    model, x = small(bidirectional=bidirectional, n=20), draw(2, 40, 3)
    plan = aireprune.plan(model, ratio=0.6, reduce="truncate")
    masked, removed = aireprune.prune(model, plan, mask=True), aireprune.prune(model, plan)
    aireprune.save(removed, tmp_path / "small")
    loaded = aireprune.load(tmp_path / "small")
    assert loaded.config.modes == removed.config.modes == tuple(len(layer.kept) for layer in plan.layers)
    with torch.no_grad():
        full, expected = model(x), masked(x)
        torch.testing.assert_close(removed(x), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(loaded(x), removed(x), rtol=0, atol=0)
    assert not torch.allclose(full, expected, rtol=1e-2)


def test_balanced_layers_are_closer():
    model, x = small(n=24), draw(4, 60, 3)
    with torch.no_grad():
        errors = [
            float((aireprune.prune(model, ratio=0.5, method="aire", reduce=way)(x) - model(x)).square().mean())
            for way in ("truncate", "balanced")
        ]
    assert errors[1] < 0.5 * errors[0]


def test_poles_start_on_the_ring():
    layer = small(n=4000, layers=1, r_min=0.5, r_max=0.9, max_phase=1.0).layers[0].seq
    radius = torch.exp(-torch.exp(layer.nu_log.detach().double()))
    angle, gamma = torch.exp(layer.theta_log.detach()), torch.exp(layer.gamma_log.detach().double())
    assert 0.5 <= radius.min() < 0.51
    assert 0.89 < radius.max() <= 0.9
    assert 0 < angle.min() < 0.01
    assert 0.99 < angle.max() <= 1.0
    # uniform in area: half of the ring lies within sqrt((r_min^2 + r_max^2) / 2)
    assert (radius < math.sqrt((0.25 + 0.81) / 2)).double().mean() == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(gamma**2, 1 - radius**2, rtol=1e-5, atol=1e-6)


def test_states_of_white_noise_have_the_variance_of_their_input():
    """What gamma is for: E|x|^2 is the squared row of B, whatever the pole."""
    layer = small(n=30, layers=1, h=16, r_min=0.3, r_max=0.99).double().layers[0].seq
    lam, b = (t.detach() for t in layer.discrete())
    expected = b.abs().square().sum(1) / (1 - lam.abs().square())
    unit = torch.complex(layer.B_re, layer.B_im).detach().abs().square().sum(1)
    torch.testing.assert_close(expected, unit, rtol=1e-6, atol=1e-6)


def test_compile_and_export():
    check_compiled_and_exported_model(small(), draw(2, 9, 3))


def test_autocast():
    check_model_under_autocast(small(), draw(2, 9, 3))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch itself
def test_forward_mode():
    check_forward_mode(small(), draw(2, 5, 3))


def test_gradients_are_those_of_the_equations():
    layer, u = small(bidirectional=True).double().layers[0].seq, draw(1, 6, 8, dtype=torch.float64)
    names = [name for name, _ in layer.named_parameters()]

    def call(*weights: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (u,))

    assert torch.autograd.gradcheck(call, tuple(p.detach().requires_grad_() for p in layer.parameters()))


def test_training_lowers_the_loss():
    model = small().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    x, y, losses = draw(16, 20, 3), torch.arange(16) % 4, []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_the_seed_decides_every_weight():
    first, again, other = (initialize(LRUModel(SMALL), seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name in first if ".norm." not in name and not name.endswith("bias")]
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


def test_configuration_round_trip():
    config = LRUConfig.from_dict({**SMALL.to_dict(), "states": [7, 0]})
    assert LRUConfig.from_dict(config.to_dict()) == config
    layers = find_layers(ModuleArrays(LRUModel(config)), config.to_dict())
    assert [(layer.family, layer.states) for layer in layers] == [("lru", 7), ("lru", 0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"r_min": 0.9, "r_max": 0.5}, "r_min is 0.9 and r_max is 0.5, expected 0 <= r_min < r_max <= 1"),
        ({"activation": "relu"}, "LRU configuration: activation is 'relu', expected one of full_glu"),
        ({"states": [3]}, "LRU configuration: states lists 1 layers, but layers is 2"),
    ],
)
def test_configurations_that_make_no_sense(change, message):
    with pytest.raises(AireError, match=message):
        LRUConfig.from_dict({**SMALL.to_dict(), **change})


def test_complex_matrices_are_no_model_of_ours(tmp_path: Path):
    tree = flax_tree(small())
    for name in [name for name in tree if name.endswith((".B_re", ".C_re"))]:
        stem = name.removesuffix("_re")
        tree[stem] = tree.pop(name) + 1j * tree.pop(f"{stem}_im")
    save_file(tree, tmp_path / "lru.safetensors")
    with pytest.raises(AireError, match=r"tensor layers\.0\.seq\.C_re is missing"):
        aireprune.load(tmp_path / "lru.safetensors")


def test_layers_alone_are_no_model(tmp_path: Path):
    tree = {name: array for name, array in flax_tree(small()).items() if ".seq." in name}
    save_file(tree, tmp_path / "layers.safetensors")
    with pytest.raises(AireError, match="holds LRU layers, but not a whole classifier"):
        aireprune.load(tmp_path / "layers.safetensors")
