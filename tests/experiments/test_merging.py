"""Merged parts are the sweep that one machine would have done; parts that do not belong together are refused."""

from __future__ import annotations

import json
import shutil

import pytest

from aireprune.errors import AireError
from aireprune.experiments import merging
from aireprune.experiments.merging import merge
from aireprune.experiments.part import Part
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import run_part, run_sweep
from aireprune.experiments.variants import make_variants
from aireprune.experiments.workers import Subject

REQUEST = SweepRequest(
    variants=make_variants(("aire", "random"), ("truncate",), False), ratios=(0.25, 0.5), seeds=2, examples=50
)


def nothing(*step):
    pass


@pytest.fixture
def parts(toy, tmp_path, monkeypatch):
    """A folder with the three parts of a sweep, and the whole sweep beside it."""
    model, task = toy
    monkeypatch.setattr(merging, "load_task", lambda name: {"toy": task}[name])
    for number in (1, 2, 3):
        run_part(Subject(model, task, REQUEST), Part(number, 3), tmp_path / "parts", nothing)
    return tmp_path / "parts"


def test_merged_parts_are_the_whole_sweep(toy, parts, tmp_path):
    whole = run_sweep(*toy, REQUEST, tmp_path / "whole")
    assert merge([parts], tmp_path / "merged") == whole
    for name in ("cells.jsonl", "sweep.json", "summary.json"):
        assert (tmp_path / "merged" / name).read_text() == (tmp_path / "whole" / name).read_text()
    with pytest.raises(AireError, match="holds a sweep already"):
        merge([parts], tmp_path / "merged")


def test_a_part_is_resumed_and_is_only_itself(toy, parts):
    cells = parts / "part-2-of-3" / "cells.jsonl"
    before = cells.read_text()
    cells.write_text("".join(before.splitlines(keepends=True)[:2]))
    run_part(Subject(*toy, REQUEST), Part(2, 3), parts, nothing)
    assert cells.read_text() == before
    description = parts / "part-2-of-3" / "sweep.json"
    description.write_text(description.read_text().replace('"part": "2/3"', '"part": "1/3"'))
    with pytest.raises(AireError, match="its part is '1/3', not '2/3'"):
        run_part(Subject(*toy, REQUEST), Part(2, 3), parts, nothing)


def change(folder, **values):
    path = folder / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def remove_a_line(folder):
    path = folder / "cells.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def other_answers(folder):
    path = folder / "cells.jsonl"
    full, *others = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("\n".join(map(json.dumps, ({**full, "test": full["test"] + 0.1}, *others))) + "\n")


@pytest.mark.parametrize(
    ("damage", "mention"),
    [
        (shutil.rmtree, "1 of 3 parts are missing: 2/3"),
        (lambda folder: shutil.copytree(folder, folder.with_name("part-4-of-3")), "Part 2/3 is there twice"),
        (lambda folder: change(folder, version="0.0.9"), "its version is '0.0.9', not '0.1.0'"),
        (lambda folder: change(folder, fingerprint="another"), "its fingerprint is 'another'"),
        (lambda folder: change(folder, task="other"), "its task is 'other', not 'toy'"),
        (lambda folder: change(folder, ratios=[0.0, 0.1]), "is of another sweep"),
        (lambda folder: change(folder, part="2/4"), "not of the same number of parts"),
        (lambda folder: change(folder, part="9/3"), "There is no part 9/3"),
        (lambda folder: (folder / "sweep.json").write_text("{}"), "does not say what was swept"),
        (remove_a_line, "lacks 1 of its 3 cells. Run part 2/3 again"),
        (
            lambda folder: shutil.copy(folder.with_name("part-1-of-3") / "cells.jsonl", folder),
            "lacks 2 of its 3 cells",
        ),
        (other_answers, "The full model has other results"),
    ],
)
def test_what_does_not_belong_together(parts, tmp_path, damage, mention):
    damage(parts / "part-2-of-3")
    with pytest.raises(AireError, match=mention):
        merge([parts], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_folders_that_are_no_parts(toy, tmp_path):
    run_sweep(*toy, REQUEST, tmp_path / "whole")
    with pytest.raises(AireError, match="holds a whole sweep, not a part of one"):
        merge([tmp_path / "whole"], tmp_path / "merged")
    with pytest.raises(AireError, match="is not the part of a sweep"):
        merge([tmp_path], tmp_path / "merged")
