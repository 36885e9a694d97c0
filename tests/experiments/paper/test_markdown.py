"""Cells and tables of the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from aireprune.experiments.paper.markdown import command, kept_reading, mark, table, with_interval
from aireprune.experiments.summary import Summary

SUMMARY = Summary.load(Path(__file__).parents[3] / "docs" / "results" / "image-s5" / "summary.json")


def test_tables_and_commands():
    assert table(("a", "b"), [["x", "1"]]) == "| a | b |\n| --- | --: |\n| x | 1 |"
    assert command("aire train image", {"family": "s5", "seed": 0}) == "aire train image --family s5 --seed 0"


def test_intervals():
    assert with_interval(SUMMARY, SUMMARY.full) == "73.3 [70.5, 75.9]"


def test_marks_say_what_is_better_by_the_metric():
    low, high = np.zeros(40), np.r_[np.ones(30), np.zeros(10)]
    assert mark(SUMMARY, high, low) == " ▲"
    assert mark(SUMMARY, low, high) == " ▽"
    assert mark(SUMMARY, low, low) == ""
    bits = replace(SUMMARY, metric="bits per byte")
    assert mark(bits, low + 1, high + 1.5) == " ▲"


def test_what_a_person_wrote_is_kept(tmp_path):
    page = tmp_path / "page.md"
    assert kept_reading(page) == "<!-- reading -->\n\n<!-- end of reading -->"
    page.write_text("# Old\n<!-- reading -->\nMine.\n<!-- end of reading -->\nrest")
    assert kept_reading(page) == "<!-- reading -->\nMine.\n<!-- end of reading -->"
