"""Tables, JSON and notices."""

from __future__ import annotations

import json
import math

import numpy as np

from aireprune.cli import output
from aireprune.cli.output import (
    QUIET,
    SCHEMA,
    Lines,
    bar,
    duration,
    fitting,
    measured,
    next_step,
    notices,
    percent,
    print_json,
    progress,
    progress_line,
    say,
    size,
    table,
    writing,
)
from aireprune.files.writing.watching import wrote


def test_json_has_no_numbers_that_json_does_not_have(capsys):
    print_json({1: (math.nan, math.inf, 0.5), "n": np.float32(2), "deep": {"k": [np.int64(3), None]}})
    assert json.loads(capsys.readouterr().out) == {
        "schema": SCHEMA,
        "1": [None, None, 0.5],
        "n": 2.0,
        "deep": {"k": [3, None]},
    }


def test_a_table_is_not_cut_where_the_output_is_a_file(capsys):
    long = "layer." * 20
    say(table("Title [bold]", ("name", "number"), [(long, 1), ("b", "[red]2")]))
    title, heads, first, second = capsys.readouterr().out.rstrip("\n").split("\n")
    assert title == "Title [bold]"
    assert heads.split() == ["name", "number"]
    assert first.split() == [long, "1"]
    assert second.split() == ["b", "[red]2"]
    assert first.index("1") + 1 == second.index("[red]2") + 6  # numbers are to the right


def test_notices_speak_of_flags(capsys):
    notices(["kept with unstable='keep'", "done"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "note: kept with --unstable keep\nnote: done\n"


def test_figures_as_people_read_them():
    assert percent(0.1234) == "12.3 %"
    assert measured("accuracy", 0.5) == "accuracy 50.00 %"
    assert measured("bits per byte", 2.5) == "2.500 bits per byte"
    assert (size(2_340), size(5_600_000)) == ("2.3 kB", "5.60 MB")


def test_columns_that_do_not_fit_go_on_below():
    assert fitting([12, 5, 5, 5], 1, 80) == [[0, 1, 2, 3]]
    assert fitting([12, 5, 5, 5], 1, 26) == [[0, 1, 2], [0, 3]]
    assert fitting([200, 5, 5], 1, 38) == [[0, 1, 2]]  # long names are folded
    assert fitting([12, 100], 1, 40) == [[0, 1]]  # what fits nowhere is left to the terminal
    assert fitting([12, 100], 2, 40) == [[0, 1]]  # prose is folded


def test_a_table_on_a_narrow_terminal(capsys, monkeypatch):
    from rich.console import Console

    monkeypatch.setattr(output, "console", lambda: Console(width=40, force_terminal=False))
    say(table("Title", ("name", *(f"column{i}" for i in range(6))), [("a", *range(6)), ("b", *range(6))]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert [line.split() for line in lines if line.startswith("a")] == [["a", "0", "1", "2", "3"], ["a", "4", "5"]]


def test_bars():
    assert (bar(0.5, 4), bar(0, 4), bar(1, 4), bar(0.01, 4)) == ("██░░", "░░░░", "████", "█░░░")


def test_a_bar_for_an_output_without_unicode(monkeypatch):
    monkeypatch.setattr("sys.stdout", type("Ascii", (), {"encoding": "ascii"})())
    assert bar(0.5, 4) == "##.."


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress("sweep") as step:
        for done in range(1, 11):
            now[0] += 8
            step(f"cell {done}", done, 10)
    assert capsys.readouterr().err.splitlines() == [
        "cell 4: 4 of 10, about 48 s left",
        "cell 8: 8 of 10, about 16 s left",
    ]


def test_bytes_without_a_terminal(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with writing("pruning x", 4_000_000):
        now[0] = 60
        wrote(1_000_000)
    assert capsys.readouterr().err == "pruning x: 1.00 MB of about 4.00 MB, about 3 min left\n"


def test_time_as_people_read_it():
    assert [duration(s) for s in (5, 90, 7200)] == ["5 s", "2 min", "2.0 h"]
    lines = Lines(lambda done, total: f"{done} of {total}", every=0)
    assert lines("x", 0, 0) is None  # nothing is known of the time left


def test_quiet_is_results_alone(capsys, monkeypatch):
    monkeypatch.setenv(QUIET, "1")
    monkeypatch.setattr(output, "EVERY", 0.0)
    notices(["a note"])
    next_step("aire prune")
    progress_line("a step")
    with progress("x") as step, writing("y", 10):
        step("x", 1, 2)
        wrote(5)
    say("a result")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("a result\n", "")


def test_what_to_type_next(capsys):
    next_step("aire a", "aire b")
    assert capsys.readouterr().out == "Next: aire a\n      aire b\n"
