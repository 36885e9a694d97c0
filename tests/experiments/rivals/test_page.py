"""The page: published figures in italics, ours with intervals, the way that validation prefers marked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import toy_experiments

import aireprune
from aireprune.experiments.rivals.page import Judged, Made, render
from aireprune.experiments.rivals.run import Effort, folder_of, gather
from aireprune.experiments.statistics import student_interval
from aireprune.models.create import new_model

EFFORT = Effort(examples=50, validation=40, recover_steps=0)


def test_a_page_of_what_was_gathered(small_models, tmp_path):
    data, page = tmp_path / "results" / "rivals", tmp_path / "rivals.md"
    found = [(comparison, (model,)) for comparison, model in small_models.values()]
    for comparison, model in small_models.values():
        gather(comparison, model, data / comparison.name, EFFORT, lambda *step: None)
    render(data, page, found, EFFORT)
    text = page.read_text()
    assert "| *published, with the regulariser in training* | *99.50* |" in text
    assert "**Not their size**: theirs has 4 layers of 64 pairs." in text
    assert text.count("★ |") == 2
    assert "On 50 test digits." in text
    assert "aire reproduce rivals -o docs --models s5,mamba2 --examples 50 --recover-steps 0`" in text
    first = Made.load(found[0][0], data, 1, EFFORT)
    best = 100 * first.results(first.best(0.5), 0.5)[0].test
    assert f"*with the regulariser in training*: {best - 99.5:+.2f} with half gone" in text
    page.write_text(text.replace("<!-- reading -->\n", "<!-- reading -->\nOurs is slower.\n"))
    render(data, page, found, EFFORT)
    assert "Ours is slower." in page.read_text()


def test_the_best_way_is_chosen_on_validation(small_models, tmp_path):
    comparison, model = small_models["s5"]
    gather(comparison, model, tmp_path / "s5", EFFORT, lambda *step: None)
    made = Made.load(comparison, tmp_path, 1, EFFORT)
    (only,) = made.models
    worst = Judged(only.facts, {key: replace(cell, test=1 - cell.validation) for key, cell in only.cells.items()})
    validation = {way.name: only.result(way, 0.5).validation for way in made.ways}
    assert replace(made, models=(worst,)).best(0.5).name == max(validation, key=lambda name: validation[name])


def test_models_that_differ_in_their_seed_share_a_row(small_models, tmp_path):
    comparison, model = small_models["s5"]
    other = str(tmp_path / "other")
    aireprune.save(new_model(toy_experiments.CONFIG, 1).eval(), other)
    for number, path in enumerate((model, other)):
        gather(comparison, path, folder_of(tmp_path, comparison, number), EFFORT, lambda *step: None)
    render(tmp_path, tmp_path / "rivals.md", [(comparison, (model, other))], EFFORT)
    made = Made.load(comparison, tmp_path, 2, EFFORT)
    way = made.ways[0]
    one, two = (100 * found.test for found in made.results(way, 0.5))
    low, high = student_interval(np.array([one, two]))
    assert (
        f"| {way.name} | {(one + two) / 2:.2f} [{low:.2f}, {min(high, 100):.2f}]"
        in (tmp_path / "rivals.md").read_text()
    )
    assert f"With `{other}` it is one of 2" in (tmp_path / "rivals.md").read_text()
