"""The card says what was done, in front matter that YAML reads, and names nothing of the machine."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml
from foreign_models import MODELS

import aireprune
from aireprune.pruning.base_model import BaseModel
from aireprune.pruning.card import FOLDED, Card, Judged
from aireprune.pruning.outcome import Outcome
from aireprune.pruning.plan import Plan

FRONT = {"license": "license: mit", "tags": "tags: [mamba, pruned]", "model-index": "model-index:\n- name: x"}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return aireprune.plan(MODELS["mamba"](), ratio=0.5)


def card(plan: Plan, base: BaseModel, **more: Any) -> str:
    given = {"target": "half", "call": 'AutoModelForCausalLM.from_pretrained("half")', **more}
    return Card(base=base, plan=plan, outcome=Outcome.of(plan), **given).text()


def front(text: str) -> Any:
    return yaml.safe_load(text.split("---\n")[1])


def test_front_matter(plan: Plan) -> None:
    found = front(card(plan, BaseModel("owner/mamba", FRONT, True)))
    assert found == {
        "base_model": "owner/mamba",
        "license": "mit",
        "library_name": "transformers",
        "tags": ["mamba", "aireprune", "pruned"],
    }


@pytest.mark.parametrize("name", ["plain", "true", 'od"d: #x', "1.0"])
def test_any_folder_name_is_a_string(plan: Plan, name: str) -> None:
    assert front(card(plan, BaseModel(name)))["base_model"] == name


def test_what_only_aireprune_loads_says_so(plan: Plan) -> None:
    text = card(plan, BaseModel("a/b", {"library_name": "library_name: transformers"}), call='aireprune.load("half")')
    assert front(text)["library_name"] == "aireprune"
    assert 'import aireprune\n\nmodel = aireprune.load("half")' in text


def test_sizes_of_every_layer_and_the_command(plan: Plan) -> None:
    text = card(plan, BaseModel("owner/mamba"))
    for layer in plan.layers:
        assert re.search(rf"^\| `{re.escape(layer.name)}` \| 6 \| {len(layer.kept)} \| \d+\.\d %", text, re.MULTILINE)
    assert "    aire prune mamba -o half --method aire --reduce truncate --ratio 0.5 --layout uniform" in text
    assert plan.fingerprint in text
    assert "README.base.md" not in text


def test_many_layers_are_folded_away(plan: Plan) -> None:
    from dataclasses import replace

    many = replace(plan, layers=plan.layers * FOLDED)
    assert "<details>" in card(many, BaseModel("x"))
    assert "<details>" not in card(plan, BaseModel("x"))


def test_what_was_measured(plan: Plan) -> None:
    judged = Judged(data="text.txt", rows=(("bits per byte", "1.0", "1.1"),), remarks=("They differ.",))
    text = card(plan, BaseModel("x"), judged=judged)
    assert (
        "On text.txt, with 95 % intervals:\n\n| | original | pruned |\n|---|---|---|\n| bits per byte | 1.0 | 1.1 |"
        in text
    )
    assert "They differ." in text


def test_certificates() -> None:
    """Linear layers have bounds, which stand beside their sizes."""
    model = aireprune.prune("zoo:listops-s5", ratio=0.5)
    plan = model.plan
    text = card(plan, BaseModel("x"))
    for entry in plan.certificate:
        assert math.isfinite(entry["bound"])
        assert f"| {entry['bound']:.3g} | {100 * entry['relative_h2']:.1f} % |" in text
