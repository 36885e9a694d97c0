"""Certificates: no bound is below the truth, whatever the model, the reduction, and what was changed afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from modal_systems import two_sided

import aireprune
from aireprune import embedded
from aireprune.certificates.audit import certify_layers, violated
from aireprune.families import FAMILIES
from aireprune.method.bounds import audible
from aireprune.method.system import difference
from aireprune.method.threads import single_threaded
from aireprune.models.lru import LRUModel
from aireprune.models.lru import initialize as initialize_lru
from aireprune.models.lru_config import LRUConfig
from aireprune.models.s4d import S4DConfig, S4DModel
from aireprune.models.s4d import initialize as initialize_s4d
from aireprune.models.s5 import S5Config, S5Model, initialize
from aireprune.pruning.source import open_source

REDUCTIONS = ("truncate", "refit", "balanced")


def s5(**options):
    config = S5Config(d_input=2, d_output=3, h=6, n=16, layers=2, dt_min=0.02, dt_max=0.3, **options)
    return settled(initialize(S5Model(config), 1))


def lru(**options):
    config = LRUConfig(d_input=2, d_output=3, h=6, n=16, layers=2, r_min=0.4, r_max=0.95, **options)
    return settled(initialize_lru(LRUModel(config), 1))


def settled(model):
    """Batch norms with statistics of their own, weights that are not all one."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "norm" in name and tensor.dtype.is_floating_point:
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
    return model.eval()


MODELS = {
    "batch norm": lambda: s5(bidirectional=True),
    "layer norm": lambda: s5(batchnorm=False, activation="full_glu", mode="last"),
    "post-norm": lambda: s5(prenorm=False, activation="half_glu1"),
    "post-norm, layer norm": lambda: s5(prenorm=False, batchnorm=False, activation="gelu", bidirectional=True),
    "full spectrum": lambda: s5(conj_sym=False, bidirectional=True, C_init="complex_normal"),
    "LRU": lambda: lru(activation="half_glu2"),
    "LRU, two directions": lambda: lru(bidirectional=True, prenorm=False, batchnorm=False),
    "S4D": lambda: settled(initialize_s4d(S4DModel(S4DConfig(2, 3, 6, 12, 2)))),
    "S4D, pre-norm": lambda: settled(initialize_s4d(S4DModel(S4DConfig(2, 3, 6, 12, 2, prenorm=True)))),
}


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_no_bound_is_below_the_truth(name, reduce):
    model = MODELS[name]()
    x = np.random.default_rng(0).standard_normal((8, 60, 2)).astype(np.float32)
    for ratio in (0.1, 0.6):
        found = aireprune.certify(aireprune.prune(model, ratio=ratio, reduce=reduce), model, data=x)
        assert found.violations == []
        for layer in found.layers:
            assert layer.hinf <= layer.last_bound * (1 + 1e-6)
            assert layer.last_bound <= layer.aire_bound * (1 + 1e-6)
            assert (layer.balanced_bound is not None) == (reduce == "balanced" and layer.error_energy > 0)
        whole = found.end_to_end
        assert whole.examples == 8
        assert 0 < whole.distortion <= whole.bound
        assert whole.looseness == whole.bound / whole.distortion


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_a_trained_layer_against_slycot(reduce):
    """True norm and exact energy of the error of an embedded layer, by other means."""
    pytest.importorskip("slycot")
    model = aireprune.load(embedded.MODEL)
    pruned = aireprune.prune(model, ratio=0.5, reduce=reduce)
    before, after = open_source(model), open_source(pruned)
    found = certify_layers(before, after, pruned.plan)[2]
    error = audible(difference(*(FAMILIES["s5"].system(s.layers[2], s.arrays) for s in (before, after))))
    norm, energy = independent(error)
    assert found.hinf == pytest.approx(norm, rel=1e-4)
    assert found.bound >= norm * (1 - 1e-5)
    assert found.error_energy == pytest.approx(energy, rel=1e-2)


@single_threaded  # on busy cores BLAS threads wait for each other
def independent(error):
    """H-infinity norm by slycot, and the energy as the mean of |G|^2 over frequencies."""
    import slycot

    a, b, c, d = two_sided(error)
    n = len(a)
    norm, _ = slycot.ab13dd("D", "I", "N", "D", n, b.shape[1], c.shape[0], a, np.eye(n), b, c, d, 1e-6)
    parts = np.split(np.linspace(0, np.pi, 2**13 + 1)[1:], 32)
    return norm, np.mean([(np.abs(error.frequency_response(part)) ** 2).sum((-2, -1)) for part in parts])


def test_certificates_of_masked_and_padded_models_are_those_of_the_removal():
    model = s5(bidirectional=True)
    plan = aireprune.plan(model, ratio=0.4, reduce="truncate")
    removed = aireprune.certify(aireprune.prune(model, plan), model)
    masked = aireprune.certify(aireprune.prune(model, plan, mask=True), model)
    padded = aireprune.certify(aireprune.prune(model, replace(plan, layout="padded")), model)
    for a, b, c in zip(removed.layers, masked.layers, padded.layers, strict=True):
        assert a.hinf == pytest.approx(b.hinf) == pytest.approx(c.hinf)
        assert a.last_bound == pytest.approx(b.last_bound) == pytest.approx(c.last_bound)
    applied = aireprune.prune(model, plan).plan.certificate
    assert [layer["last_bound"] for layer in applied] == pytest.approx([layer.last_bound for layer in removed.layers])
    assert [layer["hinf"] for layer in applied] == [None, None]  # not searched for when pruning


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_a_changed_d_counts(reduce):
    """Calibration may change D and the readout: the certificate is about what is stored."""
    model = s5()
    pruned = aireprune.prune(model, ratio=0.3, reduce=reduce)
    before = aireprune.certify(pruned, model)
    with torch.no_grad():
        pruned.layers[0].seq.D[2] += 30.0
        pruned.layers[1].seq.C *= 0.9
    x = np.random.default_rng(0).standard_normal((4, 60, 2)).astype(np.float32)
    after = aireprune.certify(pruned, model, data=x)
    assert after.violations == []
    assert after.layers[0].hinf == pytest.approx(30, rel=0.3)
    assert after.layers[0].bound >= after.layers[0].hinf
    assert after.layers[1].error_energy > 1.05 * before.layers[1].error_energy
    assert after.end_to_end.bound >= after.end_to_end.distortion


def test_no_end_to_end_bound_once_something_else_changed():
    model = s5()
    pruned = aireprune.prune(model, ratio=0.3)
    pruned.layers[1].norm.running_mean += 0.1
    x = np.random.default_rng(0).standard_normal((4, 60, 2)).astype(np.float32)
    whole = aireprune.certify(pruned, model, data=x).end_to_end
    assert whole.bound is None
    assert whole.changed == ("layers.1.norm.running_mean",)
    assert whole.looseness is None


def test_a_bound_below_the_truth_is_noticed():
    model = s5()
    pruned = aireprune.prune(model, ratio=0.3)
    (layer, *_) = certify_layers(open_source(model), open_source(pruned), pruned.plan)
    assert violated(layer) == []
    assert violated(replace(layer, last_bound=layer.hinf / 2, balanced_bound=layer.hinf / 2)) == ["LAST", "balanced"]
    assert violated(replace(layer, hinf=None)) == []


def test_a_model_that_was_not_pruned_has_no_plan():
    model = s5()
    with pytest.raises(aireprune.AireError, match="was not pruned by aireprune"):
        aireprune.certify(model, model)
