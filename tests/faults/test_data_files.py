"""Damaged files of sweeps, training runs, tasks and calibration: read, or refused with a sentence, and never for long."""

from __future__ import annotations

import io
import itertools
import json
import random
import signal
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import toy_experiments
from faults.data_mutations import ODD, mutants, of_bytes, of_json, of_lines, of_npy, of_npz, of_tsv, of_value

from aireprune.calibration.inputs import read_inputs
from aireprune.errors import AireError
from aireprune.experiments import figures, sweep
from aireprune.experiments.cells import Key, LayerCount, Result, pack, read_cells
from aireprune.experiments.paper.speed import Speeds
from aireprune.experiments.request import FULL, SweepRequest
from aireprune.experiments.summary import Summary, summarise
from aireprune.experiments.variants import make_variants
from aireprune.tasks import listops, load_task, text
from aireprune.training.recipes import Recipe
from aireprune.training.run import Run
from aireprune.training.workers import join

COUNT = 320
SECONDS = 5
REQUEST = SweepRequest(variants=make_variants(("aire", "last"), ("truncate",), False), ratios=(0.5,), examples=70)


@contextmanager
def at_most(seconds: float):
    def late(number, frame):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check(path: Path, valid: bytes, mutations: tuple, read: Callable[[Path], object]) -> None:
    """The valid file is read; damaged ones are read or refused by an AireError, and some are refused."""
    path.write_bytes(valid)
    read(path)
    refused = 0
    for number, mutant in enumerate(mutants(valid, mutations, COUNT)):
        path.write_bytes(mutant)
        try:
            with at_most(SECONDS):
                read(path)
        except AireError:
            refused += 1
        except Exception as problem:
            raise AssertionError(f"mutant {number}: {mutant[:300]!r}") from problem
    assert refused > COUNT // 10


@pytest.fixture(scope="module")
def toy():
    return toy_experiments.classification()


def cells() -> dict[Key, Result]:
    answers = np.arange(70) % 3 == 0
    keys = [FULL.key, *(cell.key for cell in REQUEST.cells())]
    return {
        key: Result(
            key=key,
            removed=key.ratio,
            layers=() if key == FULL.key else (LayerCount("layers.0", 3, 8),),
            parameters=100,
            validation=0.5,
            test=float(answers.mean()),
            answers=pack(answers.astype(float)) if key == FULL.key else tuple(float(x) for x in answers),
        )
        for key in keys
    }


def test_sweep_json(tmp_path, toy):
    wanted = {"task": "toy", "metric": "accuracy", "fingerprint": "00", **REQUEST.to_dict()}
    check(
        tmp_path / "sweep.json",
        json.dumps(wanted, indent=1).encode(),
        (of_json, of_json, of_bytes),
        lambda path: sweep._agree(path, wanted),
    )


def test_cells_jsonl(tmp_path, toy):
    lines = "".join(json.dumps(result.to_dict()) + "\n" for result in cells().values())

    def read(path):
        summarise(toy[1], REQUEST, {**cells(), **read_cells(path)})

    check(tmp_path / "cells.jsonl", lines.encode(), (of_lines, of_lines, of_bytes), read)


def test_summary_json(tmp_path, toy):
    """Every damaged file is read; of those that are understood some are drawn, a figure each, which takes longer."""
    summary, understood = summarise(toy[1], REQUEST, cells()), itertools.count()

    def read(path):
        found, number = Summary.load(path), next(understood)
        name, curve = next(iter(found.variants.items()))
        if number == 0:
            figures.draw_sweep(found, tmp_path / "figures")
        elif number % 8 == 1:
            figures.curves(found, "t")
        elif number % 8 == 5 and any(point.layers for point in curve.points):
            figures.profile(found, name, "t")

    check(tmp_path / "summary.json", json.dumps(summary.to_dict()).encode(), (of_json, of_json, of_bytes), read)


def test_speed_json(tmp_path):
    valid = {"batch": 8, "length": 24, "threads": 1, "aire": {"speedup": 1.5, "quartiles": [1.4, 1.6]}}
    check(tmp_path / "speed.json", json.dumps(valid).encode(), (of_json, of_json, of_bytes), Speeds.load)


def test_training_pt(tmp_path, toy):
    task, recipe, workers = toy[1], Recipe(epochs=1, batch=20), join("cpu")
    config = replace(toy_experiments.CONFIG, h=2, n=4, layers=1)

    def resumed(path):
        return Run(task, config, recipe, path.parent, workers)

    run = resumed(tmp_path / "training.pt")
    run.learn(task.train.rows(slice(0, 2)))
    run.save()

    def go_on(path):
        run = resumed(path)
        if run.step < run.steps:
            run.learn(task.train.rows(slice(0, 2)))

    state = torch.load(tmp_path / "training.pt", weights_only=True)
    odd = (*(value for value in ODD if value != "\ud800"), torch.zeros(3), torch.tensor(2.0), torch.zeros(0, 2))

    def of_state(data: bytes, rng: random.Random) -> bytes:
        target = io.BytesIO()
        torch.save(of_value(state, rng, odd), target)
        return target.getvalue()

    check(tmp_path / "training.pt", (tmp_path / "training.pt").read_bytes(), (of_state, of_bytes), go_on)


def npy(array: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.savez(target, **arrays)
    return target.getvalue()


@pytest.mark.parametrize("array", [np.ones((6, 7, 2), np.float32), np.ones((6, 7), np.int64)], ids=["values", "tokens"])
def test_npy_of_calibration(tmp_path, array):
    check(tmp_path / "a.npy", npy(array), (of_npy, of_bytes), read_inputs)


def test_npz_of_calibration(tmp_path):
    valid = npz(x=np.ones((6, 7, 2), np.float32), y=np.arange(6))
    check(tmp_path / "a.npz", valid, (of_npz, of_bytes), read_inputs)


@pytest.mark.parametrize("tokens", [False, True])
def test_npz_of_own_tasks(tmp_path, tokens):
    arrays = {}
    for part in ("train", "validation", "test"):
        arrays[f"{part}_x"] = np.ones((4, 7), np.int64) if tokens else np.ones((4, 7, 2), np.float32)
        arrays[f"{part}_y"] = np.arange(4) % 2
        arrays[f"{part}_lengths"] = np.full(4, 5)

    def read(path):
        task = load_task(str(path))
        task.batch(task.test)

    check(tmp_path / "a.npz", npz(**arrays), (of_npz, of_bytes), read)


def test_tsv_of_listops(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRE_CACHE", str(tmp_path / "cache"))
    lines = ["Source\tTarget", *(f"( ( ( [MAX 4 ) {digit} ) ] )\t{max(4, digit)}" for digit in range(9))]
    check(
        tmp_path / "basic.tsv",
        "\n".join(lines).encode(),
        (of_tsv, of_bytes),
        lambda path: listops.read_tsv(path, 64),
    )


def test_jsonl_of_imdb(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRE_DATA", str(tmp_path))
    lines = "".join(json.dumps({"label": k % 2, "text": "good " * 9}) + "\n" for k in range(6))

    def read(path):
        text.padded_bytes(text.reviews("train", "text"), 64)

    check(tmp_path / "imdb_train.jsonl", lines.encode(), (of_lines, of_lines, of_bytes), read)


@pytest.mark.parametrize("shape", [(1, 2**30), (2**20, 2**12)])
def test_arrays_larger_than_their_file_are_not_read(tmp_path, shape):
    """A compressed header that claims gigabytes, and one of an uncompressed file that ends after it."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    (tmp_path / "a.npy").write_bytes(head.getvalue())
    with pytest.raises(AireError, match="more than a file of this size"):
        read_inputs(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(2**24))
    with pytest.raises(AireError, match="more than a file of this size"):
        read_inputs(tmp_path / "a.npz")
