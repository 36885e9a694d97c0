"""The page: published figures in italics, ours with intervals, the way that validation prefers marked."""

from __future__ import annotations

from dataclasses import replace

from aireprune.experiments.rivals.page import Made, render
from aireprune.experiments.rivals.run import Effort, gather

EFFORT = Effort(examples=50, validation=40, recover_steps=0)


def test_a_page_of_what_was_gathered(small_models, tmp_path):
    data, page = tmp_path / "results" / "rivals", tmp_path / "rivals.md"
    for comparison, model in small_models.values():
        gather(comparison, model, data / comparison.name, EFFORT, lambda *step: None)
    comparisons = [comparison for comparison, _ in small_models.values()]
    render(data, page, comparisons, EFFORT)
    text = page.read_text()
    assert "| *published, with the regulariser in training* | *99.50* |" in text
    assert "**Not their size**: theirs has 4 layers of 64 pairs." in text
    assert text.count("★ |") == 2
    assert "On 50 test digits." in text
    assert "aire reproduce rivals -o docs --models s5,mamba2 --examples 50 --recover-steps 0`" in text
    first = Made.load(comparisons[0], data / "s5", EFFORT)
    best = 100 * first.result(first.best(0.5), 0.5).test
    assert f"*with the regulariser in training*: {best - 99.5:+.2f} with half gone" in text
    page.write_text(text.replace("<!-- reading -->\n", "<!-- reading -->\nOurs is slower.\n"))
    render(data, page, comparisons, EFFORT)
    assert "Ours is slower." in page.read_text()


def test_the_best_way_is_chosen_on_validation(small_models, tmp_path):
    comparison, model = small_models["s5"]
    gather(comparison, model, tmp_path / "s5", EFFORT, lambda *step: None)
    made = Made.load(comparison, tmp_path / "s5", EFFORT)
    worst = {key: replace(cell, test=1 - cell.validation) for key, cell in made.cells.items()}
    validation = {way.name: made.result(way, 0.5).validation for way in made.ways}
    assert replace(made, cells=worst).best(0.5).name == max(validation, key=lambda name: validation[name])
