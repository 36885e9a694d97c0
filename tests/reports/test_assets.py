"""The page's scripts decide as Python does, and pages work in a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browser import ASSETS, chromium, opened, run_in_node
from safetensors.numpy import save_file

import aireprune
from aireprune import embedded
from aireprune.method.decision import decide, energy_share
from aireprune.method.rows import shorten_rows
from aireprune.method.selection import Budget, Rule
from aireprune.method.states import LayerStates
from aireprune.pruning.plan import Plan
from aireprune.reports.page import SCRIPTS
from aireprune.zoo import FOLDER as ZOO

CASES = 300
DECIDE = """
return data.map(({ layers, budget, rule }) => {
  for (const layer of layers) layer.scores = new Float64Array(new Uint8Array(Buffer.from(layer.scores, "base64")).buffer);
  const found = aire.choose(aire.rank(layers, rule), budget, rule);
  const shares = layers.map((layer, i) => aire.float(aire.energyShare(layer.scores, found.kept[i])));
  return { kept: found.kept.map((kept) => [...kept]), threshold: aire.float(found.threshold), shares };
});
"""


def bits(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def random_scores(rng: np.random.Generator, n: int) -> np.ndarray:
    """Spread over decades, with many ties, or next to the ends of what numbers can hold; some states always stay."""
    kind = rng.integers(3)
    scores = np.exp(rng.normal(0, 4, n)) if kind == 0 else rng.integers(0, 4, n).astype(float)
    if kind == 2:
        scores = rng.random(n) * 10.0 ** rng.integers(-300, 20)
    if rng.random() < 0.2:
        scores[rng.random(n) < 0.1] = np.nan
    return scores


def random_layer(rng: np.random.Generator, n: int) -> tuple[LayerStates, np.ndarray]:
    """A layer with n states per group, of which some are silent, and its raw scores."""
    groups = int(rng.choice([1, 1, 1, 2, 4]))
    scores, silent = random_scores(rng, n * groups), rng.random(n * groups) < 0.1
    scores[silent] = 0.0
    shape = (n * groups, 1)
    gain = np.where(silent, 0.0, 1.0)[:, None]
    return LayerStates("x", np.full(shape, -1.0), np.zeros(shape), gain, gain[None], groups), scores


def random_case(rng: np.random.Generator) -> tuple[dict, dict]:
    """A decision to make, as the script takes it, and what Python decides."""
    same, large = bool(rng.random() < 0.2), rng.random() < 0.1
    sizes = rng.integers(1, 700 if large else 60, rng.integers(1, 7))
    layers = [random_layer(rng, int(sizes[0] if same else n)) for n in sizes]
    states, scores = [layer for layer, _ in layers], [values for _, values in layers]
    rows = [4 if len(v) % 4 == 0 and s.groups == 1 else 1 for s, v in layers]
    prefix, by_threshold = bool(rng.random() < 0.6), bool(rng.random() < 0.3)
    rule = Rule(
        prefix=prefix,
        scope="global" if by_threshold else str(rng.choice(["global", "uniform"])),
        epsilon=float(rng.choice([0, 0, 1e-8, 0.01, 3.0])) if prefix else 0.0,
        round_to=int(rng.choice([1, 1, 4, 8])),
        same_size=same,
    )
    ratio = float(rng.choice([0, 1, 0.5, 0.9, 0.1, 0.333, rng.random(), 1e-7]))
    threshold = float(rng.choice([0, 0.01, 0.3, 1, rng.random()]))
    budget = Budget(None if by_threshold else ratio, threshold if by_threshold else None, int(rng.integers(0, 5)))
    found, short = decide(states, scores, budget, rule), bool(rng.random() < 0.5)
    if short:
        found = shorten_rows(found, scores, rows)
    counted = [-(-int((~layer.silent).sum()) // layer.groups) for layer in states]
    given = {
        "layers": [
            {"scores": bits(values), "groups": layer.groups, "rows": row, "counted": count}
            for layer, values, row, count in zip(states, scores, rows, counted, strict=True)
        ],
        "budget": {"ratio": budget.ratio, "threshold": budget.threshold, "minStates": budget.min_states},
        "rule": {
            "prefix": rule.prefix,
            "scope": rule.scope,
            "epsilon": rule.epsilon,
            "roundTo": rule.round_to,
            "sameSize": rule.same_size,
            "shortRows": short,
        },
    }
    expected = {
        "kept": [kept.tolist() for kept in found.kept],
        "threshold": "Infinity" if np.isinf(found.threshold) else repr(float(found.threshold)),
        "shares": [repr(energy_share(values, kept)) for values, kept in zip(scores, found.kept, strict=True)],
    }
    return given, expected


def test_the_scripts_decide_as_python_does():
    """The same states, the same threshold and the same shares of energy, to the last digit."""
    rng = np.random.default_rng(0)
    given, expected = zip(*(random_case(rng) for _ in range(CASES)), strict=True)
    found = run_in_node(("selection.js", "plan.js"), DECIDE, given)
    assert [case["kept"] for case in found] == [case["kept"] for case in expected]
    assert [case["shares"] for case in found] == [case["shares"] for case in expected]
    pairs = [(a["threshold"], b["threshold"]) for a, b in zip(found, expected, strict=True)]
    assert [pair for pair in pairs if pair[0] != pair[1] and pair[1] != "Infinity"] == []


def test_numbers_and_text_are_written_as_python_writes_them():
    rng = np.random.default_rng(1)
    numbers = [0.0, 1.0, -2.5, 0.1, 1e-5, 1e-4, 1e15, 1e16, 1e22, 123456789.125, 5e-324, 1.7976931348623157e308, 1 / 3]
    numbers += list(rng.random(50) * 10.0 ** rng.integers(-30, 30, 50))
    assert run_in_node(("plan.js",), "return data.map(aire.float)", numbers) == [repr(float(n)) for n in numbers]
    document = {
        "name": 'é "quoted" \\ \n\t\x7f \u2028 😀 </script>',
        "empty": [],
        "kept": [1, 2],
        "ratio": 1.0,
        "n": 3,
        "no": None,
    }
    text = run_in_node(("plan.js",), "return aire.planText(data)", document)
    assert text == json.dumps(document, indent=1) + "\n"


def test_the_copies_of_what_others_made_are_those_that_are_listed():
    listed = re.findall(r"^\| (\S+) \|.*\| (\w{64}) \|", (ASSETS / "vendor" / "README.md").read_text(), re.MULTILINE)
    assert len(listed) == 4
    for name, digest in listed:
        assert hashlib.sha256((ASSETS / "vendor" / name).read_bytes()).hexdigest() == digest


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def settle(tab) -> None:
    """Wait until what a change led to has been drawn."""
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")


def set_values(tab, values: dict[str, object]) -> None:
    """Give form fields values, in this order, as a person would."""
    tab.evaluate(
        """(values) => {
          for (const [id, value] of Object.entries(values)) {
            const field = document.getElementById(id);
            if (field.type === "radio") field.checked = value;
            else if (!field.disabled) field.value = value;
            for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
          }
        }""",
        values,
    )
    settle(tab)


def saved_plan(tab) -> str:
    with tab.expect_download() as download:
        tab.click("#download")
    return Path(download.value.path()).read_text()


@pytest.fixture
def stock(tmp_path):
    """S4D in a stock layout, whose rows are stored equally long."""
    state = aireprune.load(ZOO / "listops-s4d").state_dict()
    save_file({name: values.numpy() for name, values in state.items()}, tmp_path / "stock.safetensors")
    return tmp_path / "stock.safetensors"


@pytest.mark.parametrize("name", ["smnist-s5", "listops-s4d", "stock", "lm-mamba"])
def test_the_plan_that_a_page_saves_is_pythons(browser, tmp_path, stock, name):
    path = {"smnist-s5": embedded.MODEL, "stock": stock}.get(name, ZOO / name)
    aireprune.explore(path, tmp_path / "e.html")
    linear = name != "lm-mamba"
    cases = [
        {"method": "aire", "ratio": 0.37},
        {"method": "last", "ratio": 0.6, "min_states": 3, "round_to": 4},
        {"method": "uniform-magnitude", "ratio": 0.25},
        {"method": "random", "ratio": 0.5},
        {"method": "aire", "ratio": 0.9, "epsilon": 1e-06, "min_states": 0},
        {"method": "aire", "threshold": 0.004},
        *([{"method": "aire", "ratio": 0.55, "reduce": "balanced"}] if linear else []),
    ]
    with opened(browser, tmp_path / "e.html") as tab:
        for case in cases:
            reduce, by_threshold = case.get("reduce", "truncate"), "threshold" in case
            set_values(tab, {"method": case["method"], "by-threshold": by_threshold, "by-ratio": not by_threshold})
            set_values(
                tab,
                {
                    "reduce": reduce,
                    "threshold" if by_threshold else "ratio-number": case["threshold" if by_threshold else "ratio"],
                    "epsilon": case.get("epsilon", 0),
                    "min-states": case.get("min_states", 1),
                    "round-to": case.get("round_to", 1),
                },
            )
            expected = aireprune.plan(path, **{"ratio": None, "reduce": reduce, "layout": "adaptive", **case})
            assert saved_plan(tab) == replace(expected, certificate=None).to_json()  # the page reduces nothing


def test_controls_change_what_is_shown(browser, tmp_path):
    aireprune.explore(embedded.MODEL, tmp_path / "e.html", 0.5)
    with opened(browser, tmp_path / "e.html") as tab:
        assert "64 of 128 states stay" in tab.inner_text(".outcome")
        error = "aire.view.error(0)"
        before = tab.evaluate(error)
        tab.focus("#ratio")
        tab.keyboard.press("ArrowLeft")
        settle(tab)
        assert tab.input_value("#ratio-number") == "0.49"
        assert "65 of 128 states stay" in tab.inner_text(".outcome")
        assert tab.evaluate(error) <= before
        command = tab.inner_text(".taking code")
        assert command.startswith(
            f"aire prune {embedded.MODEL.resolve()} -o OUT --method aire --reduce truncate --ratio 0.49"
        )
        set_values(tab, {"ratio-number": 7})
        assert tab.inner_text(".problem") == "The ratio is the share of states to remove, from 0 to 1."


def test_a_report_is_used_with_the_keyboard(browser, pruned, tmp_path):
    aireprune.report(pruned, tmp_path / "r.html")
    with opened(browser, tmp_path / "r.html") as tab:
        assert tab.inner_text(".verdict").startswith("64 of 128 states")
        tab.focus(".card")
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("Enter")
        settle(tab)
        assert tab.inner_text("#layer-name") == "layers.1.seq"
        tab.focus(".disc")
        tab.keyboard.press("ArrowRight")
        settle(tab)
        told = tab.inner_text(".told")
        ranking = aireprune.score(embedded.MODEL).best(1)[1]
        assert re.search(rf"state\s+{ranking.state}, kept", told)
        assert re.search(r"rank\s+1 of 32", told)
        assert tab.locator("#layer svg[role=img]").count() == 6
        kept = [len(layer.kept) for layer in Plan.load(pruned / "plan.json").layers]
        assert tab.locator(".card .count").all_inner_texts() == [f"{count} of 32" for count in kept]
        tab.focus("#theme")
        colours = []
        for _ in range(3):
            tab.keyboard.press("Enter")
            colours.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert colours[0] == colours[2] != colours[1]  # light, dark, and the system's, which is light


@pytest.mark.parametrize(("width", "dark"), [(1280, True), (390, False)])
def test_a_sweep_fits_every_screen(browser, swept, tmp_path, width, dark):
    aireprune.report(swept, tmp_path / "s.html")
    with opened(browser, tmp_path / "s.html", width=width, dark=dark) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate("document.documentElement.dataset.shown") == ("dark" if dark else "light")
        assert tab.locator(".legend button").all_inner_texts() == ["aire", "balanced", "random"]
        tab.click(".legend button:nth-child(3)")
        assert tab.get_attribute(".legend button:nth-child(3)", "aria-pressed") == "true"
        assert tab.locator("#curves svg[role=img]").count() == 1


def test_names_from_files_are_only_text(browser, tmp_path):
    name = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    rng = np.random.default_rng(0)
    shapes = {"A_log": (8, 4), "x_proj.weight": (10, 8), "dt_proj.weight": (8, 2), "dt_proj.bias": (8,)}
    arrays = {
        f"{layer}.{leaf}": rng.standard_normal(shape).astype(np.float32)
        for layer in (name, "plain")
        for leaf, shape in shapes.items()
    }
    save_file(arrays, tmp_path / "in.safetensors")
    aireprune.explore(tmp_path / "in.safetensors", tmp_path / "e.html")
    with opened(browser, tmp_path / "e.html") as tab:
        assert name in tab.locator("#layer-pick option").all_inner_texts()
        assert tab.locator("img").count() == 0
        assert json.loads(saved_plan(tab))["layers"][0]["name"] == name
    plan = aireprune.plan(tmp_path / "in.safetensors", ratio=0.5, reduce="truncate", layout="adaptive")
    plan.save(tmp_path / "plan.json")
    aireprune.report(tmp_path / "plan.json", tmp_path / "r.html")
    with opened(browser, tmp_path / "r.html") as tab:
        assert tab.locator("script:not([type])").count() == len(SCRIPTS)
