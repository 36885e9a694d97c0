"""aire report."""

from __future__ import annotations

import json

import pytest

from aireprune import embedded


@pytest.fixture
def half(aire, tmp_path):
    arguments = ("--ratio", 0.5, "--method", "aire", "--reduce", "truncate", "--layout", "adaptive", "--report")
    code, _, err = aire("prune", embedded.MODEL, "-o", tmp_path / "half", *arguments)
    assert code == 0, err
    assert f"note: the report is {tmp_path / 'half' / 'report.html'}." in err
    return tmp_path / "half"


def test_prune_writes_it_and_report_writes_it_again(aire, half, tmp_path):
    page = half / "report.html"
    assert "half, pruned" in page.read_text()
    code, out, err = aire("report", half)
    assert code == 0, err
    assert out.startswith("64 of 128 states (50 %) are gone. The state space part of a layer changes by ")
    assert f"Wrote {page} (" in out
    assert out.splitlines()[-1] == f"Next: aire eval {half} --against zoo:smnist-s5 --task TASK"
    code, out, _ = aire("report", half / "plan.json", "-o", tmp_path / "plan.html", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["page"] == str(tmp_path / "plan.html")
    assert found["facts"][0] == {"label": "States", "before": "128", "value": "64"}


def test_problems_are_said_in_flags(aire, half, tmp_path):
    plan = json.loads((half / "plan.json").read_text())
    (half / "plan.json").write_text(json.dumps({**plan, "source": None}))
    code, _, err = aire("report", half)
    assert code == 0
    assert "Give the original with --against." in err
    assert "Give the original with --against." in (half / "report.html").read_text()
    code, _, err = aire("report", embedded.MODEL, "--task", "digits", "-o", tmp_path / "x.html")
    assert code == 1
    assert "Leave --task away." in err
    code, _, err = aire("report", tmp_path / "nothing")
    assert code == 1


def test_the_next_step_of_a_plan_and_of_a_full_model(aire, half, tmp_path):
    """What it says to type works as it stands."""
    code, out, _ = aire("report", half / "plan.json", "-o", tmp_path / "plan.html")
    assert code == 0
    *_, then = out.splitlines()
    words = then.removeprefix("Next: aire ").replace("OUT", str(tmp_path / "again")).split()
    code, _, err = aire(*words)
    assert code == 0, err
    code, out, _ = aire("report", embedded.MODEL, "-o", tmp_path / "full.html")
    assert code == 0
    assert out.splitlines()[-2:] == [
        f"Next: aire explore {embedded.MODEL}",
        f"      aire prune {embedded.MODEL} -o OUT --ratio 0.5 --dry-run",
    ]
