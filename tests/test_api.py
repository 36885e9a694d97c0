"""The public functions: what they refuse, and what comes back from what they wrote."""

from __future__ import annotations

import pytest
import small_models
import torch
import toy_experiments
from foreign_models import transformers_model
from helpers import GOLDEN

import aireprune
from aireprune import embedded


def test_a_pruned_full_spectrum_reloads_whatever_its_poles_look_like(tmp_path):
    """The signs of the poles that stay do not tell whether conjugates were stored; the configuration does."""
    source = GOLDEN / "bilinear_fullspectrum_gelu_postnorm.msgpack"
    for seed in range(6):
        aireprune.prune_file(source, tmp_path / f"{seed}.msgpack", ratio=0.8, method="random", seed=seed)
        assert aireprune.load(tmp_path / f"{seed}.msgpack").config.conj_sym is False


def test_arguments_of_the_wrong_kind():
    path = GOLDEN / "bidir_bn_half_glu2.msgpack"
    for call, message in (
        (lambda: aireprune.prune(path, 0.5), "plan is a Plan"),
        (lambda: aireprune.plan(5, ratio=0.5), "Expected a model or the path"),
        (lambda: aireprune.plan(path, ratio="0.5"), "are numbers"),
    ):
        with pytest.raises(aireprune.AireError, match=message):
            call()


def test_own_format_round_trip_and_second_pruning(tmp_path):
    model = aireprune.load(embedded.MODEL)
    once = aireprune.prune(model, ratio=0.5)
    aireprune.save(once, tmp_path / "once")
    again = aireprune.load(tmp_path / "once")
    x = torch.randn(2, 784, 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(again(x), once(x))
    twice = aireprune.prune(tmp_path / "once", ratio=0.5)
    assert sum(twice.config.modes) == 32
    assert sorted(path.name for path in (tmp_path / "once").iterdir()) == [
        "config.json",
        "model.safetensors",
        "plan.json",
    ]


def test_a_hugging_face_folder_is_loaded_with_fast_scans(tmp_path):
    pytest.importorskip("transformers")
    stock = transformers_model("Mamba", state_size=6)
    stock.save_pretrained(tmp_path / "mamba")
    x = torch.arange(22).reshape(2, 11)
    aireprune.prune_file(tmp_path / "mamba", tmp_path / "adaptive", ratio=0.4)
    for folder in (tmp_path / "mamba", tmp_path / "adaptive"):
        model = aireprune.load(folder)
        assert model.name_or_path == str(folder)  # where its tokenizer is
        assert sum("forward" in vars(module) for module in model.modules()) == 3
    with torch.no_grad():
        torch.testing.assert_close(aireprune.load(tmp_path / "mamba")(x).logits, stock(x).logits)


def test_evaluate(tmp_path):
    model, task = toy_experiments.classification()
    found = aireprune.evaluate(model, task=task, count=30, batch=10)
    assert found.examples == 30
    assert aireprune.evaluate(model, task=task, against=model).against.agreement.value == 1
    with pytest.raises(aireprune.AireError, match=r"There is no argument examples=.*batch, config, count, window"):
        aireprune.evaluate(model, task=task, examples=30)


def test_a_sweep_and_its_report(tmp_path):
    model, task = toy_experiments.classification()
    steps = []
    summary = aireprune.sweep(
        model,
        task,
        tmp_path / "sweep",
        progress=lambda *step: steps.append(step[1:]),
        methods=["aire", "last"],
        ratios=[0.25, 0.5],
        examples=20,
    )
    assert steps == [(i, 4) for i in range(1, 5)]
    assert (summary.ratios, list(summary.variants), summary.examples) == ((0.0, 0.25, 0.5), ["aire", "last"], 20)
    assert (tmp_path / "sweep" / "report.html").is_file()
    page = aireprune.report(tmp_path / "sweep", tmp_path / "again.html", original=model)
    assert page.path == tmp_path / "again.html"
    assert page.verdict.startswith("On toy, ")
    with pytest.raises(aireprune.AireError, match="There is no argument wide="):
        aireprune.sweep(model, task, tmp_path / "other", wide=True)


def test_a_page_with_controls_of_a_model_in_memory(tmp_path):
    model = aireprune.load(embedded.MODEL)
    page = aireprune.explore(model, tmp_path / "e.html", 0.3, seed=5)
    assert page.document.model.plan["seed"] == 5
    assert page.document.model.plan["ratio"] == 0.3
    with pytest.raises(aireprune.AireError, match="needs a place"):
        aireprune.explore(model)


@pytest.mark.parametrize("choice", [{"resume": True}, {"ray": "auto"}])
def test_a_model_in_memory_has_no_shards(choice):
    with pytest.raises(aireprune.AireError, match="prune_file"):
        aireprune.prune(small_models.s5(), ratio=0.5, **choice)
