"""Reductions in the product: every storage convention is written back, and the promised error is the real one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays

import aireprune
from aireprune import embedded
from aireprune.errors import AireError
from aireprune.families import FAMILIES, Found, LTIFamily, find_layers
from aireprune.families.storing import is_bfloat16, to_bfloat16
from aireprune.method.bounds import certify
from aireprune.method.evidence import Evidence
from aireprune.method.gramians import distance_energy
from aireprune.method.reductions import hankel_values
from aireprune.models.arrays import ModuleArrays
from aireprune.models.editing import edited
from aireprune.models.s4d import S4DConfig, S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s5 import S5Config, S5Model, initialize
from aireprune.pruning.layers import read_system
from aireprune.pruning.plan import LayerPlan, Plan
from aireprune.pruning.planning import layer_hankel_scores
from aireprune.pruning.source import open_source
from aireprune.pruning.surgery import operate
from aireprune.tasks import Split
from aireprune.tasks.evaluate import evaluate

S5_CONVENTIONS: dict[str, dict[str, Any]] = {
    "halves": {},
    "bidirectional": {"bidirectional": True},
    "one C": {"bidirectional": True, "C_init": "complex_normal"},
    "full spectrum": {"conj_sym": False},
    "full spectrum, both ways": {"conj_sym": False, "bidirectional": True, "C_init": "complex_normal"},
    "bilinear": {"discretization": "bilinear", "bidirectional": True},
    "clipped": {"clip_eigs": True},
    "clipped, bilinear": {"clip_eigs": True, "discretization": "bilinear"},
    "rescaled": {"step_rescale": 2.0, "bidirectional": True},
}


def s5(seed: int = 0, **options: Any) -> S5Model:
    """Small, and clip_eigs binds for some poles."""
    config = S5Config(d_input=2, d_output=3, h=6, n=16, layers=2, dt_min=0.02, dt_max=0.3, **options)
    model = initialize(S5Model(config), seed).eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.seq.Lambda_re[:2] = -1e-5 if config.clip_eigs else -0.05
    return model


def s4d(seed: int = 0, **options: Any) -> S4DModel:
    config = S4DConfig(d_input=2, d_output=3, h=5, n=12, layers=2, dt_min=0.02, dt_max=0.3, **options)
    return initialize_s4d(S4DModel(config), seed).eval()


MODELS = {name: (s5, options) for name, options in S5_CONVENTIONS.items()} | {
    "S4D": (s4d, {}),
    "S4D, pre-norm": (s4d, {"prenorm": True}),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> torch.nn.Module:
    make, options = MODELS[request.param]
    return make(**options)


def inputs(examples: int = 3, length: int = 50, d: int = 2) -> torch.Tensor:
    return torch.randn(examples, length, d, generator=torch.Generator().manual_seed(1))


@torch.inference_mode()
def distance(a: torch.nn.Module, b: torch.nn.Module) -> float:
    x = inputs()
    return float((a(x) - b(x)).norm() / a(x).norm())


def lti(layer: Any) -> LTIFamily:
    family = FAMILIES[layer.family]
    assert isinstance(family, LTIFamily)
    return family


def opened(arrays: Arrays, config: dict[str, Any] | None = None) -> Found:
    config = config or {}
    return Found("arrays", arrays, config, find_layers(arrays, config))


def planned(source: Found, counts: list[int], **options: Any) -> Plan:
    """A plan that keeps the first states."""
    layers = tuple(
        LayerPlan(layer.name, layer.family, layer.states, tuple(range(count)), 1.0)
        for layer, count in zip(source.layers, counts, strict=True)
    )
    values = {"method": "aire", "ratio": 0.5, "threshold": 0.0, "by_threshold": False, "min_states": 1, "epsilon": 0.0}
    values |= {"horizon": None, "seed": 0, "layout": "adaptive", "granularity": "mode", "fingerprint": ""}
    return Plan(**{**values, **options}, layers=layers)


def test_a_system_survives_storing(model: torch.nn.Module) -> None:
    """Through ModalSystem and back into new parameters: other poles, steps, B and C, the same outputs."""
    source = open_source(model)
    new: dict[str, np.ndarray] = {}
    for layer in source.layers:
        new |= lti(layer).store(layer, source.arrays, lti(layer).system(layer, source.arrays))
    for name, values in new.items():
        assert values.dtype == source.arrays[name].dtype
        assert values.shape == source.arrays[name].shape
    edits = {name: (lambda old, values=values: values) for name, values in new.items()}
    assert distance(model, edited(model, source.layers, edits, model.config.modes)) < 1e-4


@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_nothing_removed_changes_nothing(model: torch.nn.Module, reduce: str) -> None:
    assert distance(model, aireprune.prune(model, ratio=0.0, reduce=reduce)) < 1e-6


def test_redundant_states_go_without_loss() -> None:
    """Every mode of a layer twice, each with part of the readout: balancing finds the half that suffices."""
    model = s5(bidirectional=True, conj_sym=False, C_init="complex_normal")
    source = open_source(model)
    edits, wide = {}, {}
    for layer in source.layers:
        system = lti(layer).system(layer, source.arrays)
        twice = np.concatenate([np.arange(16), np.arange(16)])
        double = system.take(twice)
        double = double.with_c(double.c * np.repeat([0.3, 0.7], 16))
        wide |= lti(layer).store(layer, source.arrays, double)
    edits = {name: (lambda old, values=values: values) for name, values in wide.items()}
    redundant = edited(model, source.layers, edits, [32, 32])
    assert distance(model, redundant) < 1e-4
    small = aireprune.prune(redundant, ratio=0.5, reduce="balanced", layout="uniform")
    assert small.config.modes == (16, 16)
    assert distance(model, small) < 1e-3
    assert distance(model, aireprune.prune(redundant, ratio=0.5, reduce="truncate", layout="uniform")) > 0.05


@pytest.mark.parametrize("horizon", [None, 40])
@pytest.mark.parametrize("reduce", ["refit", "balanced"])
def test_the_stored_error_is_the_promised_one(model: torch.nn.Module, reduce: str, horizon: int | None) -> None:
    source = open_source(model)
    plan = aireprune.plan(model, ratio=0.4, reduce=reduce, horizon=horizon)
    reduced = operate(source, plan)
    for layer, found, size in zip(source.layers, reduced.reductions, reduced.sizes, strict=True):
        assert found is not None
        names = [name for name in layer.arrays.values() if name in reduced.edits]
        new = {name: reduced.edits[name](source.arrays[name]) for name in names}
        stored, full = read_system(source, layer, new, size), lti(layer).system(layer, source.arrays)
        assert stored.stable
        errors = np.sqrt([distance_energy(full, stored, horizon).sum(), found.error_energy.sum()])
        assert errors[0] == pytest.approx(errors[1], abs=1e-3 * np.sqrt(found.energy.sum()))
        if reduce == "balanced" and horizon is None:
            certificate = certify(layer.name, found)
            assert certificate.balanced_bound is not None
            assert certificate.hinf <= certificate.balanced_bound * (1 + 1e-6)
    pruned = aireprune.prune(model, plan)
    assert [c["relative_h2"] for c in pruned.plan.certificate] == [r.relative_error for r in reduced.reductions]
    assert json.loads(pruned.plan.to_json())["reduce"] == reduce
    assert Plan.from_dict(json.loads(pruned.plan.to_json())) == pruned.plan


def test_refit_is_closer_than_truncation(model: torch.nn.Module) -> None:
    source, plan = open_source(model), aireprune.plan(model, ratio=0.5, reduce="truncate")
    cut = operate(source, plan).reductions
    refitted = operate(source, aireprune.plan(model, ratio=0.5, reduce="refit")).reductions
    assert [a.order.sum() for a in cut] == [b.order.sum() for b in refitted]
    assert all((b.error_energy <= a.error_energy * (1 + 1e-9)).all() for a, b in zip(cut, refitted, strict=True))
    assert sum(b.error_energy.sum() for b in refitted) < sum(a.error_energy.sum() for a in cut)


@pytest.mark.parametrize("layout", ["adaptive", "uniform", "padded"])
@pytest.mark.parametrize("granularity", ["mode", "state"])
@pytest.mark.parametrize("reduce", ["refit", "balanced"])
def test_layouts_of_s4d(tmp_path: Any, layout: str, granularity: str, reduce: str) -> None:
    model = s4d()
    names = set(model.state_dict())
    options = {"ratio": 0.5, "layout": layout, "granularity": granularity, "reduce": reduce}
    aireprune.save(model, tmp_path / "model")
    applied = aireprune.prune_file(tmp_path / "model", tmp_path / "file", **options)
    small, from_file = aireprune.prune(model, **options), aireprune.load(tmp_path / "file")
    assert distance(small, from_file) < 1e-6
    assert distance(model, small) < 0.5
    assert set(small.state_dict()) == names  # the stock layout
    assert small.state_dict()["s4_layers.0.kernel.log_dt"].equal(model.state_dict()["s4_layers.0.kernel.log_dt"])
    if layout != "adaptive":
        assert len(set(small.config.modes)) == 1
    if layout == "uniform" or granularity == "state":
        assert max(small.config.modes) < 6
    assert applied.reduce == reduce


@pytest.mark.parametrize("round_to", [2, 4])
def test_sizes_are_rounded(round_to: int) -> None:
    small = aireprune.prune(s5(bidirectional=True), ratio=0.4, reduce="balanced", round_to=round_to)
    assert all(size % round_to == 0 for size in small.config.modes)


def lru(rng: np.random.Generator, directions: int, whole: bool, gamma: bool) -> Arrays:
    n, h, o = 10, 4, 3
    c = rng.standard_normal((o, directions * n)) + 1j * rng.standard_normal((o, directions * n))
    b = rng.standard_normal((n, h)) + 1j * rng.standard_normal((n, h))
    poles = {"nu_log": rng.uniform(-5, 0, n), "theta_log": np.log(rng.uniform(0.01, 3, n))}
    poles |= {"gamma_log": rng.uniform(-1, 0, n)} if gamma else {}
    parts = {"B": b, "C": c} if whole else {"B_re": b.real, "B_im": b.imag, "C_re": c.real, "C_im": c.imag}
    kind = {True: np.complex64, False: np.float32}
    return Arrays({f"l.{k}": v.astype(kind[np.iscomplexobj(v)]) for k, v in (poles | parts).items()})


def lru_kernel(arrays: Arrays, length: int = 60) -> np.ndarray:
    """Impulse response of both directions, straight from the definition."""
    get = {name[2:]: values.astype(complex) for name, values in arrays.items()}
    lam = np.exp(-np.exp(get["nu_log"]) + 1j * np.exp(get["theta_log"]))
    b = get["B"] if "B" in get else get["B_re"] + 1j * get["B_im"]
    c = get["C"] if "C" in get else get["C_re"] + 1j * get["C_im"]
    b = b * np.exp(get["gamma_log"])[:, None] if "gamma_log" in get else b
    c = c.reshape(len(c), -1, len(lam))
    return np.einsum("odn,nl,nh->dloh", c, lam[:, None] ** np.arange(length), b).real


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(("whole", "gamma"), [(True, True), (False, True), (False, False)])
def test_lru(directions: int, whole: bool, gamma: bool) -> None:
    arrays = lru(np.random.default_rng(3), directions, whole, gamma)
    source = opened(arrays)
    (layer,) = source.layers
    full = lti(layer).system(layer, arrays)
    np.testing.assert_allclose(full.kernel(60), lru_kernel(arrays), atol=1e-5)
    same = Arrays(arrays | lti(layer).store(layer, arrays, full))
    np.testing.assert_allclose(lru_kernel(same), lru_kernel(arrays), atol=1e-4)
    for reduce in ("refit", "balanced"):
        reduced = operate(source, planned(source, [6], reduce=reduce))
        small = Arrays({name: reduced.edits[name](values) for name, values in arrays.items()})
        assert len(small["l.nu_log"]) == reduced.sizes[0] <= 6
        found = reduced.reductions[0]
        np.testing.assert_allclose(lru_kernel(small), found.system.kernel(60), atol=1e-4)


@pytest.mark.parametrize("config", [{}, {"disc": "bilinear"}, {"real_transform": "softplus", "dt_fast": True}])
@pytest.mark.parametrize(("o", "untied"), [(1, False), (2, True)])
def test_the_s4_repositorys_s4d(config: dict[str, Any], o: int, untied: bool) -> None:
    rng = np.random.default_rng(2)
    h, n = 4, 6
    arrays = Arrays(
        {
            "k.inv_dt": rng.uniform(-3, -1, (h, n if untied else 1)),
            "k.A_real": rng.uniform(-1, 1, (h, n)),
            "k.A_imag": rng.uniform(0, 5, (h, n)),
            "k.B": rng.standard_normal((1, h, n, 2)),
            "k.C": rng.standard_normal((o, h, n, 2)),
        }
    )
    if config.get("dt_fast"):
        arrays["k.inv_dt"] = np.arcsinh(arrays["k.inv_dt"])
    source = opened(arrays, config)
    (layer,) = source.layers
    full = lti(layer).system(layer, arrays)
    same = lti(layer).system(layer, Arrays(arrays | lti(layer).store(layer, arrays, full)))
    np.testing.assert_allclose(same.kernel(50), full.kernel(50), atol=1e-9)
    for reduce in ("refit", "balanced"):
        reduced = operate(source, planned(source, [16], reduce=reduce))
        found = reduced.reductions[0]
        stored = read_system(
            source, layer, {name: edit(arrays[name]) for name, edit in reduced.edits.items()}, reduced.sizes[0]
        )
        np.testing.assert_allclose(stored.kernel(50), found.system.kernel(50)[..., :50, :, :], atol=1e-8)


def test_channels_that_share_poles_get_their_own_when_they_are_balanced() -> None:
    rng = np.random.default_rng(2)
    arrays = Arrays(
        {
            "k.inv_dt": rng.uniform(-3, -1, (4, 1)),
            "k.A_real": rng.uniform(-1, 1, (2, 3)),
            "k.A_imag": rng.uniform(0, 5, (2, 3)),
            "k.B": rng.standard_normal((1, 2, 3, 2)),
            "k.C": rng.standard_normal((1, 4, 3, 2)),
        }
    )
    source = opened(arrays)
    (layer,) = source.layers
    balanced = operate(source, planned(source, [4], reduce="balanced"))
    new = {name: edit(arrays[name]) for name, edit in balanced.edits.items()}
    assert {name: values.shape[:-1] for name, values in new.items()}["k.C"] == (1, 4, 3)
    assert new["k.A_real"].shape == (4, 3)
    reduction = balanced.reductions[0]
    assert reduction.order.tolist() == [3, 1, 3, 1]
    stored = read_system(source, layer, new, balanced.sizes[0])
    np.testing.assert_allclose(stored.kernel(50), reduction.system.kernel(50), atol=1e-9)
    written = Arrays(arrays | new)
    (again,) = find_layers(written, {})
    assert again.options.copies == 4
    np.testing.assert_allclose(lti(again).system(again, written).kernel(50), stored.kernel(50), atol=1e-12)
    assert operate(source, planned(source, [3], reduce="refit")).reductions[0].order.tolist() == [3, 0, 3, 0]


def test_s5_pytorch_modules() -> None:
    s5_pytorch = pytest.importorskip("s5")
    torch.manual_seed(0)
    module = s5_pytorch.S5(4, 12).eval()
    small = aireprune.prune(module, ratio=0.3, reduce="balanced")
    source, after = open_source(module), open_source(small)
    assert after.layers[0].states < source.layers[0].states
    impulse = torch.zeros(1, 40, 4)
    impulse[0, 0, 0] = 1
    with torch.inference_mode():
        difference = (module(impulse) - small(impulse))[0].numpy()
    (layer,) = after.layers
    kernels = [lti(layer).system(s.layers[0], s.arrays).kernel(40)[0, :, :, 0] for s in (source, after)]
    np.testing.assert_allclose(difference, kernels[0] - kernels[1], atol=1e-4)


def test_measured_covariances_take_the_place_of_closed_forms() -> None:
    """Under a covariance that only sees some states, only these are kept."""
    model = s5()
    source = open_source(model)
    covariances = []
    for _ in source.layers:
        seen = np.zeros(16)
        seen[[1, 4, 9, 12]] = 1.0  # Re and Im of modes 1 and 4
        covariances.append(np.diag(seen + 1e-9))
    scores = layer_hankel_scores(source, evidence=Evidence(covariances=covariances))
    assert all(score[2] < 1e-6 * score[0] for score in scores)
    assert all(score[2] > 1e-6 * score[0] for score in layer_hankel_scores(source))
    plan = aireprune.plan(model, ratio=0.75, reduce="balanced", covariances=covariances)
    small = aireprune.prune(model, plan, covariances=covariances)
    assert small.config.modes == (2, 2)
    for layer, after in zip(source.layers, open_source(small).layers, strict=True):
        old, new = ModuleArrays(model), ModuleArrays(small)
        full = lti(layer).system(layer, old)
        poles = np.sort(np.abs(lti(after).system(after, new).lam))
        np.testing.assert_allclose(poles, np.sort(np.abs(full.lam[[1, 4]])), rtol=1e-3)


def test_hankel_slots_are_ranked() -> None:
    source = open_source(s4d())
    scores = layer_hankel_scores(source)
    system = lti(source.layers[0]).system(source.layers[0], source.arrays)
    squares = hankel_values(system) ** 2
    np.testing.assert_allclose(scores[0].reshape(5, 6), squares.reshape(5, 6, 2).sum(-1), rtol=1e-6)
    plan = aireprune.plan(s4d(), ratio=0.5, reduce="balanced")
    for layer in plan.layers:
        rows = np.zeros(30, int)
        rows[list(layer.kept)] = 1
        assert (np.diff(rows.reshape(5, 6), axis=1) <= 0).all()  # the best slots of every channel


def test_the_embedded_model_keeps_its_accuracy() -> None:
    task, model = embedded.digits(), aireprune.load(embedded.MODEL)
    split = Split(task.test.x[:300], task.test.y[:300])
    balanced = evaluate(aireprune.prune(model, ratio=0.5, reduce="balanced"), task, split)
    plain = evaluate(aireprune.prune(model, ratio=0.5, reduce="truncate"), task, split)
    assert balanced >= 0.97
    assert balanced > plain + 0.1


def test_errors() -> None:
    model = s5()
    with pytest.raises(AireError, match=r"There is no reduction 'halve'\. Reductions: truncate, refit, balanced"):
        aireprune.plan(model, ratio=0.5, reduce="halve")
    with pytest.raises(AireError, match="method 'last' cannot be combined"):
        aireprune.plan(model, ratio=0.5, reduce="balanced", method="last")
    for reduce in ("refit", "balanced"):
        with pytest.raises(AireError, match="A mask leaves every state as it is"):
            aireprune.prune(model, ratio=0.5, reduce=reduce, mask=True)
    with torch.no_grad():
        model.layers[0].seq.Lambda_re[3] = 0.1
    for reduce in ("refit", "balanced"):
        with pytest.raises(AireError, match="Unstable poles"):
            aireprune.plan(model, ratio=0.5, reduce=reduce, unstable="keep")


def test_selective_layers_are_only_truncated() -> None:
    from aireprune.models.mamba import MambaModel
    from aireprune.models.mamba_config import MambaConfig

    model = MambaModel(MambaConfig(d_input=1, d_output=3, d_model=8, layers=2))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(0))
    with pytest.raises(AireError, match=r"selective \(mamba\).*Use reduce='truncate'"):
        aireprune.plan(model, ratio=0.5, reduce="balanced")


def test_bfloat16_is_recognised_and_rounded() -> None:
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal(1000).astype(np.float32))
    expected = values.bfloat16().float().numpy()
    np.testing.assert_array_equal(to_bfloat16(values.numpy()), expected)
    assert is_bfloat16([expected, np.ones((2, 3), np.float32)])
    assert not is_bfloat16([expected, values.numpy()])
    arrays = lru(rng, 1, False, True)
    arrays["l.nu_log"][:] = -3
    arrays["l.theta_log"][:] = np.log(2.5 + 0.1 * np.arange(10))
    coarse = opened(Arrays({name: to_bfloat16(value) for name, value in arrays.items()}))
    with pytest.raises(AireError, match="in the precision of this checkpoint"):
        operate(coarse, planned(coarse, [7], reduce="balanced"))
    assert operate(opened(arrays), planned(opened(arrays), [7], reduce="balanced")).sizes == [7]


def test_half_precision_that_cannot_hold_the_result_is_refused() -> None:
    """Poles close to each other and to the circle, in float16."""
    rng = np.random.default_rng(0)
    arrays = lru(rng, 1, False, True)
    arrays["l.nu_log"][:] = -6
    arrays["l.theta_log"][:] = np.log(2.5 + 0.005 * np.arange(10))
    coarse = Arrays({name: values.astype(np.float16) for name, values in arrays.items()})
    source = opened(coarse)
    with pytest.raises(AireError, match=r"in the precision of this checkpoint .* Nothing was written"):
        operate(source, planned(source, [7], reduce="balanced"))
