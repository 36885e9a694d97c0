"""Pruning foreign modules in memory: masked = removed = padded through their own forward, and caches still work."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from foreign_models import INEXACT_CACHES, MODELS, close, decode, make_plan, prune_module
from torch import nn

import aireprune
from aireprune import embedded
from aireprune.errors import AireError
from aireprune.families import FAMILIES, find_layers
from aireprune.models.arrays import ModuleArrays, module_config
from aireprune.models.editing import _copied, resize_module
from aireprune.pruning.source import open_module
from aireprune.zoo import FOLDER as ZOO

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
]


@pytest.mark.parametrize("name", MODELS)
def test_masked_is_removed_is_padded(name: str) -> None:
    model = MODELS[name]()
    layers, plan = make_plan(model)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    tokens = torch.randint(1, 40, (2, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        full, masked = model(tokens).logits, prune_module(model, layers, plan, mask=True)(tokens).logits
        removed = prune_module(model, layers, plan)
        padded = prune_module(model, layers, plan, padded=True)
        assert (full - masked).abs().max() > 1e-4  # the plan did take something away
        close(removed(tokens).logits, masked)
        close(padded(tokens).logits, masked)
    assert sum(p.numel() for p in removed.parameters()) < sum(p.numel() for p in padded.parameters())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", MODELS)
def test_cached_decoding_is_uncached(name: str) -> None:
    model = MODELS[name]()
    layers, plan = make_plan(model)
    removed: Any = prune_module(model, layers, plan)
    tokens = torch.randint(1, 40, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        cached = decode(removed, tokens, 6)
        close(cached, decode(prune_module(model, layers, plan, mask=True), tokens, 6))
        if name not in INEXACT_CACHES:
            close(cached, removed(tokens, use_cache=False).logits)
        generated = removed.generate(tokens, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert generated.shape == (2, 12)


def test_sizes_go_into_the_configuration(tmp_path: Any) -> None:
    import json

    model = MODELS["mamba"]()
    adaptive, uniform = prune_module(model, *make_plan(model)), prune_module(model, *make_plan(model, (0.5,)))
    adaptive.save_pretrained(tmp_path)  # type: ignore[operator]
    written = json.loads((tmp_path / "config.json").read_text())
    assert {int(k): v["state_size"] for k, v in written["per_layer_config"].items()} | {2: 4} == {0: 3, 1: 2, 2: 4}
    assert written["state_size"] == 4
    assert uniform.config.state_size == 3  # type: ignore[union-attr]
    assert not uniform.config.is_heterogeneous  # type: ignore[union-attr]
    again = resize_module(MODELS["mamba"](), [3, 2, 4])
    again.load_state_dict(adaptive.state_dict())
    tokens = torch.arange(1, 9)[None]
    with torch.no_grad():
        close(again(tokens).logits, adaptive(tokens).logits)


def test_pruning_twice() -> None:
    model = MODELS["mamba2"]()
    once = prune_module(model, *make_plan(model))
    layers, plan = make_plan(once, (0.34,))
    tokens = torch.randint(1, 40, (1, 7))
    with torch.no_grad():
        close(
            prune_module(once, layers, plan)(tokens).logits, prune_module(once, layers, plan, mask=True)(tokens).logits
        )


def test_unequal_groups_are_refused() -> None:
    model = MODELS["mamba2"]()
    layers, plan = make_plan(model)
    first, *rest = plan.layers
    plan = replace(plan, layers=(replace(first, kept=first.kept[1:]), *rest))
    with pytest.raises(AireError, match="equally many"):
        prune_module(model, layers, plan)


@pytest.mark.parametrize("norms", [False, True])
def test_mambapy(norms: bool) -> None:
    from mambapy.mamba import Mamba, MambaConfig

    torch.manual_seed(0)
    model = Mamba(MambaConfig(d_model=16, n_layers=2, d_state=6, inner_layernorms=norms))
    layers, plan = make_plan(model)
    assert [layer.options.bc_norm for layer in layers] == ["weighted" if norms else "none"] * 2
    x = torch.randn(2, 9, 16)
    removed = prune_module(model, layers, plan)
    with torch.no_grad():
        masked = prune_module(model, layers, plan, mask=True)(x)
        close(removed(x), masked)
        close(prune_module(model, layers, plan, padded=True)(x), masked)
        caches: list[Any] = [(None, torch.zeros(2, 32, 3)) for _ in range(2)]
        steps = []
        for t in range(9):
            y, caches = removed.step(x[:, t], caches)  # type: ignore[operator]
            steps.append(y)
        close(torch.stack(steps, 1), masked)
    assert model.config.d_state == 6


@pytest.mark.parametrize("bidirectional", [False, True])
def test_s5_pytorch(bidirectional: bool) -> None:
    from s5 import S5Block

    torch.manual_seed(0)
    model = nn.Sequential(*(S5Block(8, 16, bidirectional) for _ in range(2))).eval()
    layers, plan = make_plan(model)
    x = torch.randn(2, 10, 8)
    with torch.no_grad():
        masked = prune_module(model, layers, plan, mask=True)(x)
        close(prune_module(model, layers, plan)(x), masked)
        close(prune_module(model, layers, plan, padded=True)(x), masked)


def test_low_precision_and_marks_stay() -> None:
    model = MODELS["mamba"]().to(torch.bfloat16)
    first = model.get_parameter("backbone.layers.0.mixer.A_log").requires_grad_(False)
    first._no_weight_decay = True  # type: ignore[attr-defined]
    removed = prune_module(model, *make_plan(model))
    pruned = removed.get_parameter("backbone.layers.0.mixer.A_log")
    assert pruned.dtype == torch.bfloat16
    assert not pruned.requires_grad
    assert pruned._no_weight_decay  # type: ignore[attr-defined]
    assert removed.get_submodule("backbone.layers.0.mixer.x_proj").out_features == 2 + 2 * 3


def test_families_score_foreign_modules() -> None:
    for name in ("mamba", "jamba", "mamba2"):
        model = MODELS[name]()
        arrays = ModuleArrays(model)
        for layer in find_layers(arrays, module_config(model)):
            states = FAMILIES[layer.family].states(layer, arrays)
            assert len(states) == layer.states
            assert not states.unstable.any()


@pytest.mark.parametrize(
    ("path", "word"), [(embedded.MODEL, "states"), (ZOO / "lm-mamba", "states"), (ZOO / "listops-s4d", "modes")]
)
def test_a_pruned_model_shows_its_state_counts(path, word):
    model = aireprune.load(path)
    plan = aireprune.plan(model, "aire", 0.5, reduce="truncate", layout="uniform")
    small = aireprune.prune(model, plan=plan)
    rows = [layer.rows for layer in open_module(model).layers]
    counts = [len(layer.kept) // row for layer, row in zip(plan.layers, rows, strict=True)]
    shown = re.findall(rf"{word}=(\d+)", repr(small))  # torch writes equal layers once
    assert {int(count) for count in shown} == set(counts)
    assert repr(small) != repr(model)


class Counted(nn.Linear):
    """A module that has a say in how it is copied."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "copies": getattr(self, "copies", 0) + 1}


def test_a_copy_is_what_deepcopy_makes() -> None:
    shared = nn.Linear(3, 3)
    model: Any = nn.Sequential(shared, nn.BatchNorm1d(3), nn.Sequential(shared, Counted(3, 3)), nn.ReLU())
    model.nothing = None
    model[1].register_module("absent", None)
    model.facts = {"sizes": [1, 2], "shared": shared}
    model[1].weight.mark = "kept"
    model[0].register_forward_hook(lambda module, given, out: out + 1)
    ours, theirs = _copied(model, {}), copy.deepcopy(model)
    assert list(vars(ours)) == list(vars(theirs))
    for (name, mine), (other_name, other) in zip(ours.named_modules(), theirs.named_modules(), strict=True):
        assert (name, type(mine)) == (other_name, type(other))
        assert {key: type(value) for key, value in vars(mine).items()} == {
            key: type(value) for key, value in vars(other).items()
        }
    assert ours[0] is ours[2][0] is ours.facts["shared"]
    assert ours[0] is not shared
    assert ours.facts["sizes"] is not model.facts["sizes"]
    assert ours[2][1].copies == theirs[2][1].copies == 1
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    x = torch.randn(4, 3)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=0, atol=0)
    with torch.no_grad():
        ours[0].weight.zero_()
    assert model[0].weight.abs().sum() > 0
