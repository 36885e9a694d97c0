"""aire reproduce, on a zoo of two tiny models."""

from __future__ import annotations

import pytest
import toy_experiments

from aireprune.experiments.judging import Judge


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    return toy_experiments.make_zoo(tmp_path, monkeypatch)


def test_the_data_first_and_then_the_page(aire, zoo, tmp_path, monkeypatch):
    out = tmp_path / "docs"
    code, printed, err = aire("reproduce", "table1", "-o", out, "--zoo", zoo, "--models", "image-s5", "--no-page")
    assert code == 0, err
    assert printed == f"Wrote the data in {out / 'results'}\n"
    assert not (out / "results.md").exists()
    monkeypatch.setattr(Judge, "__call__", lambda *a: pytest.fail("a cell was done again"))
    code, printed, err = aire("reproduce", "table1", "-o", out, "--zoo", zoo, "--models", "image-s5")
    assert code == 0, err
    assert printed == f"Wrote {out / 'results.md'} and the data and figures in {out / 'results'}\n"
    assert "## Table 1" in (out / "results.md").read_text()


def test_what_is_missing_is_said_before_the_work(aire, zoo, tmp_path):
    for arguments, mention in (
        (("table1", "--zoo", tmp_path / "nowhere"), "aire train image --family s5 --recipe mini --seed 0 -o RUN"),
        (("table9", "--zoo", zoo), "no table or figure 'table9'"),
        (("table1", "--zoo", zoo, "--models", "chess-s5"), "no model chess-s5"),
        (("table1", "--zoo", zoo, "--recipe", "large"), "no recipe 'large'"),
    ):
        code, _, err = aire("reproduce", *arguments, "-o", tmp_path / "docs")
        assert code == 1
        assert mention in err
    assert not (tmp_path / "docs").exists()


def test_rivals_are_refused_before_the_work(aire, tmp_path):
    code, _, err = aire("reproduce", "rivals", "-o", tmp_path / "docs", "--model", "s6=run")
    assert code == 1
    assert "No rival is compared with 's6'" in err
    assert not (tmp_path / "docs").exists()
