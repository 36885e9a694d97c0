"""Tables, JSON and notices."""

from __future__ import annotations

import json
import math

import numpy as np

from aireprune.cli import output
from aireprune.cli.output import measured, notices, percent, print_json, say, size, table


def test_json_has_no_numbers_that_json_does_not_have(capsys):
    print_json({1: (math.nan, math.inf, 0.5), "n": np.float32(2), "deep": {"k": [np.int64(3), None]}})
    assert json.loads(capsys.readouterr().out) == {"1": [None, None, 0.5], "n": 2.0, "deep": {"k": [3, None]}}


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


def test_logs_say_how_much_time_is_left(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(output, "progress_line", lines.append)
    step = output.Milestones()
    for done in range(10, 31):  # 10 cells were done before
        step("aire at 30%", done, 90)
        now[0] += 20
    assert len(lines) == 6
    assert lines[-1] == "aire at 30%: 28 of 90, about 21 min left"
    assert [output.duration(seconds) for seconds in (5, 120, 10_000)] == ["5 s", "2 min", "2.8 h"]
