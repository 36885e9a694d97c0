"""Our S5 against the official one, and against itself after masking and removal."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import numpy as np
import pytest
import torch

import aireprune
from aireprune.method.decision import energies
from aireprune.models.arrays import ModuleArrays
from aireprune.models.s5 import S5Model, hippo_normal, initialize
from aireprune.models.s5_config import S5Config
from aireprune.pruning.source import open_source

VARIANTS = [
    dict(zip(("conj_sym", "bidirectional", "discretization", "C_init", "batchnorm"), values, strict=True))
    for values in itertools.product(
        (True, False), (True, False), ("zoh", "bilinear"), ("lecun_normal", "complex_normal"), (True, False)
    )
]


def small(seed=0, **changes):
    config = {
        "d_input": 3,
        "d_output": 4,
        "h": 8,
        "n": 12,
        "layers": 3,
        "blocks": 2,
        "activation": "full_glu",
        **changes,
    }
    model = initialize(S5Model(S5Config(**config)), seed).eval()
    with torch.no_grad():
        for layer in model.layers:
            if hasattr(layer.norm, "running_mean"):
                layer.norm.running_mean.normal_(0, 0.3)
                layer.norm.running_var.uniform_(0.5, 2)
    return model


def inputs(batch=2, length=40, width=3):
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(5))


def test_outputs_are_the_official_ones(golden):
    model = aireprune.load(golden.path)
    with torch.no_grad():
        log_probs = model(*golden.inputs()).log_softmax(-1).numpy()
    np.testing.assert_allclose(log_probs, golden.data["log_probs"], atol=1e-5)


@pytest.mark.parametrize("method", ["aire", "last"])
def test_published_scores_and_masked_outputs(golden, method):
    published = golden.published(method)
    if published is None:
        pytest.skip("the LAST authors' code fails on the retrieval model, so there is nothing to compare with")
    model = aireprune.load(golden.path)
    threshold = float(published["threshold_60"]) * (1 - 1e-3)  # their scores are single precision
    plan = aireprune.plan(golden.path, method=f"{method}-published", threshold=threshold, layout="adaptive")
    expected_kept = np.flatnonzero(published["scores"] >= published["threshold_60"])
    sizes = np.cumsum([0, *(layer.states for layer in plan.layers)])
    assert [start + k for start, layer in zip(sizes, plan.layers, strict=False) for k in layer.kept] == list(
        expected_kept
    )
    with torch.no_grad():
        for mask in (True, False):
            log_probs = aireprune.prune(model, plan, mask=mask)(*golden.inputs()).log_softmax(-1).numpy()
            np.testing.assert_allclose(log_probs, published["log_probs_masked_60"], atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(str(x) for x in v.values()))
def test_masked_is_removed(variant):
    model, x = small(**variant), inputs()
    plan = aireprune.plan(model, ratio=0.6, reduce="truncate")
    masked, removed = aireprune.prune(model, plan, mask=True), aireprune.prune(model, plan)
    with torch.no_grad():
        full, a, b = model(x), masked(x), removed(x)
    assert torch.linalg.norm(a - b) <= 1e-5 * torch.linalg.norm(a)
    assert torch.linalg.norm(full - a) > 1e-3 * torch.linalg.norm(full)  # pruning did something
    state_axis = {"Lambda_re": 0, "Lambda_im": 0, "log_step": 0, "B": 0, "C": 1, "C1": 1, "C2": 1}
    before, after = model.state_dict(), removed.state_dict()
    for name in before:
        leaf = name.rsplit(".", 1)[-1]
        if leaf in state_axis and ".seq." in name:
            layer = plan.layers[int(name.split(".")[1])]
            old, new = before[name].shape[state_axis[leaf]], after[name].shape[state_axis[leaf]]
            assert new * layer.states == old * len(layer.kept)
        else:
            assert torch.equal(before[name], after[name])


def test_scores_are_those_of_the_modules_own_impulse_responses():
    """Energy of each state from running the layer on impulses with all other states silenced."""
    for variant in VARIANTS[::2]:  # the norm does not matter here
        model = small(**variant, dt_min=0.05, layers=1, h=3).double()  # memories of at most forty steps
        expected = [impulse_energy(model.layers[0].seq, i, variant) for i in range(model.layers[0].seq.modes)]
        np.testing.assert_allclose(scores_of(model)[0], expected, rtol=1e-6)


def impulse_energy(ssm, state, variant):
    """sum over time and features of |y|^2 to unit impulses: the mean over directions of c2 b2/(1-r2) must come out.

    With complex modes y = s Re(C x), whose summed square is s^2/2 of |C x|^2 up to a part oscillating with twice the
    angle; running the quadrature (C -> iC) as well and adding makes it exact: Re^2 + Im^2.
    """
    length, total = 500, 0.0
    scale = 2.0 if variant["conj_sym"] else 1.0
    h = ssm.D.shape[0]
    for quarter in (False, True):
        alone = copy.deepcopy(ssm)
        with torch.no_grad():
            alone.D.zero_()
            for name in ("C", "C1", "C2"):
                if hasattr(alone, name):
                    c = getattr(alone, name)
                    columns = [state] if name != "C" or c.shape[1] == ssm.modes else [state, ssm.modes + state]
                    kept = torch.zeros_like(c)
                    kept[:, columns] = c[:, columns]
                    if quarter:
                        kept = torch.stack([-kept[..., 1], kept[..., 0]], -1)
                    c.copy_(kept)
            u = torch.zeros(h, 2 * length + 1, h, dtype=torch.float64)
            u[torch.arange(h), length, torch.arange(h)] = 1.0
            y = alone(u)
            if variant["bidirectional"]:
                total += (y[:, length + 1 :] ** 2).sum().item() + (y[:, :length] ** 2).sum().item()
            else:
                total += (y[:, length + 1 :] ** 2).sum().item()
    decay = ssm.discrete()[0][state].abs().item() ** 2  # the impulse's own step is left out above: sum from k = 1
    return total / scale**2 / decay / (2 if variant["bidirectional"] else 1)


def scores_of(model):
    return energies(open_source(model).states())


def test_an_empty_layer_runs_on_its_feedthrough():
    for changes in ({}, {"bidirectional": True}, {"bidirectional": True, "C_init": "complex_normal"}):
        model, x = small(**changes), inputs()
        with torch.no_grad():
            model.layers[1].seq.B.mul_(1e-6)
        plan = aireprune.plan(model, ratio=0.5, reduce="truncate", min_states=0, epsilon=1e-3)
        assert len(plan.layers[1].kept) == 0
        assert len(plan.layers[0].kept) > 0
        removed, masked = aireprune.prune(model, plan), aireprune.prune(model, plan, mask=True)
        assert removed.layers[1].seq.B.numel() == 0
        with torch.no_grad():
            torch.testing.assert_close(removed(x), masked(x))
            y = removed.layers[1].seq(x @ torch.ones(3, 8))
            torch.testing.assert_close(y, (x @ torch.ones(3, 8)) * removed.layers[1].seq.D)


def test_recurrence_step_by_step():
    """The layer is x_k = lam x_{k-1} + B u_k, y_k = 2 Re(C x_k) + D u_k (docs/method.md section 1)."""
    ssm = small().double().layers[0].seq
    u = torch.randn(1, 25, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    lam, b = ssm.discrete()
    c, state = torch.view_as_complex(ssm.C), torch.zeros(6, dtype=torch.complex128)
    with torch.no_grad():
        y = ssm(u)
        for k in range(25):
            state = lam * state + b @ u[0, k].to(state.dtype)
            torch.testing.assert_close(y[0, k], 2 * (c @ state).real + ssm.D * u[0, k])


def test_tokens_are_one_hot_vectors():
    model = small()
    tokens = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1]])
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), model(torch.nn.functional.one_hot(tokens, 3).float()))


def test_lengths_and_last_pooling():
    model, x = small(mode="last"), inputs()
    with torch.no_grad():
        short = model(x[:, :17])
        torch.testing.assert_close(model(x, torch.tensor([17, 17])), short)  # causal: the padding is not seen


def test_step_rescale_and_clip_eigs_are_scored_as_they_run():
    plain = small()
    for change in ({"step_rescale": 2.0}, {"clip_eigs": True}):
        changed = S5Model(dataclasses.replace(plain.config, **change)).eval()
        changed.load_state_dict(plain.state_dict())
        with torch.no_grad():
            changed.layers[0].seq.Lambda_re[0] = 0.2
        states = open_source(changed).states()
        lam, b = changed.layers[0].seq.discrete()
        np.testing.assert_allclose(states[0].radius[:, 0], lam.abs().detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(states[0].b2[:, 0], (b.abs() ** 2).sum(1).detach().numpy(), rtol=1e-4)
        assert states[0].unstable[0] == ("clip_eigs" not in change)


def test_hippo_poles():
    lam, vectors = hippo_normal(16)
    np.testing.assert_allclose(lam.real, -0.5)
    np.testing.assert_allclose(np.sort(lam.imag), -np.sort(-lam.imag)[::-1])
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(16), atol=1e-12)


def test_prune_leaves_the_original_alone():
    model = small()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    aireprune.prune(model, ratio=0.5)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_arrays_of_a_module_in_bfloat16_and_gradients_after_pruning():
    model = small()
    pruned = aireprune.prune(model, ratio=0.5).train()
    pruned(inputs()).sum().backward()
    assert all(p.grad is not None for p in pruned.parameters())
    half = model.to(torch.bfloat16)
    assert ModuleArrays(half)["encoder.weight"].dtype == np.float32


def test_layers_of_several_sizes_are_initialised() -> None:
    """As layers of one size are: the poles of a layer are those of a model in which all layers are as large."""

    def poles(layer: int, **sizes: object) -> np.ndarray:
        model = initialize(S5Model(S5Config(d_input=2, d_output=3, h=4, layers=3, blocks=2, **sizes)))
        return np.asarray(model.layers[layer].seq.Lambda_im.detach())

    varied = {"n": 16, "states": (8, 4, 3)}
    np.testing.assert_array_equal(poles(0, **varied), poles(0, n=16))
    np.testing.assert_array_equal(poles(1, **varied), poles(0, n=8))
    assert len(np.unique(np.round(poles(2, **varied), 5))) == 3  # 3 modes are one block
    assert len(np.unique(np.round(poles(1, **varied), 5))) == 2
