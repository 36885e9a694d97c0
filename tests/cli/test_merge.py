"""aire sweep --part and aire sweep merge."""

from __future__ import annotations

import json

import toy_experiments


def test_parts_become_the_whole(aire, tmp_path):
    arguments = toy_experiments.sweep_arguments(tmp_path)
    code, whole, err = aire("sweep", *arguments, "-o", tmp_path / "whole", "--json")
    assert code == 0, err
    for part in ("1/2", "2/2"):
        code, out, err = aire("sweep", *arguments, "-o", tmp_path / "parts", "--part", part)
        assert code == 0, err
        assert "When all 2 parts are there: aire sweep merge" in out
    code, out, err = aire("sweep", "merge", tmp_path / "parts", "--json")
    assert code == 0, err
    assert json.loads(out) == json.loads(whole)
    assert (tmp_path / "parts" / "report.html").is_file()
    code, out, _ = aire("sweep", "merge", tmp_path / "parts", "-o", tmp_path / "again")
    assert code == 0
    assert "Largest ratio that costs at most" in out


def test_a_part_that_is_not_there(aire, tmp_path):
    arguments = toy_experiments.sweep_arguments(tmp_path)
    code, _, err = aire("sweep", *arguments, "-o", tmp_path / "parts", "--part", "3/2")
    assert code == 1
    assert "There is no part 3/2: parts are 1/2 to 2/2" in err
    code, _, err = aire("sweep", *arguments, "-o", tmp_path / "parts", "--part", "1/2")
    assert code == 0, err
    code, _, err = aire("sweep", "merge", tmp_path / "parts")
    assert code == 1
    assert "1 of 2 parts are missing: 2/2" in err
