"""A cluster of two nodes: sweeps have the same rows, whatever is killed on the way, shards the same bytes, and calibrated
weights the same values."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import toy_experiments

pytest.importorskip("ray")

import ray
from foreign_models import MODELS
from ray_cluster import two_nodes
from safetensors.numpy import load_file
from sharded_models import contents, make_sharded

import aireprune
from aireprune.calibration.on_ray import run_as_team
from aireprune.cluster import connect
from aireprune.errors import AireError
from aireprune.experiments.on_ray import runner
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import Setting, run_sweep
from aireprune.experiments.variants import make_variants
from aireprune.pruning.prune import prune_checkpoint
from aireprune.pruning.request import make_job
from aireprune.pruning.source import open_file

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
REQUEST = SweepRequest(
    variants=(
        *make_variants(("aire", "last", "random"), ("truncate",), False),
        *make_variants(("aire",), ("balanced",), True),
    ),
    ratios=(0.25, 0.5, 0.75),
    seeds=4,
)


@pytest.fixture(scope="module")
def nodes():
    with two_nodes() as found:
        yield found


def lines(folder):
    return sorted((folder / "cells.jsonl").read_text().splitlines())


def test_rows_survive_a_lost_worker_and_a_lost_node(nodes, tmp_path):
    model, task = toy_experiments.classification()
    run_sweep(model, task, REQUEST, tmp_path / "here")
    killed = []

    def kill(found, done, total):
        if not killed and done < total:
            nodes.kill_worker()
            killed.append("worker")
        elif killed == ["worker"]:
            nodes.kill_node()
            killed.append("node")

    summary = run_sweep(model, task, REQUEST, tmp_path / "there", kill, Setting(run=runner(nodes.address)))
    assert killed == ["worker", "node"]
    assert lines(tmp_path / "there") == lines(tmp_path / "here")
    assert summary.to_dict() == json.loads((tmp_path / "here" / "summary.json").read_text())
    nodes.replace_node()


def test_a_killed_driver_is_taken_up_again(nodes, tmp_path):
    model, task = toy_experiments.classification()
    aireprune.save(model, tmp_path / "model")
    toy_experiments.save_task(task, tmp_path / "task.npz")
    choices = ["--methods", "aire,random", "--ratios", "0.2,0.4,0.6,0.8", "--seeds", "12"]
    start = [sys.executable, "-m", "aireprune", "sweep", tmp_path / "model", "--task", tmp_path / "task.npz", *choices]
    cells = tmp_path / "there" / "cells.jsonl"
    driver = subprocess.Popen([*start, "-o", tmp_path / "there", "--ray", nodes.address], start_new_session=True)
    while driver.poll() is None and not (cells.is_file() and cells.read_text().count("\n") >= 2):
        time.sleep(0.005)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    begun = cells.read_text().count("\n")
    aireprune.sweep(tmp_path / "model", str(tmp_path / "task.npz"), tmp_path / "there", methods=["aire", "random"],
                    ratios=[0.2, 0.4, 0.6, 0.8], seeds=12, ray=nodes.address)  # fmt: skip
    aireprune.sweep(tmp_path / "model", str(tmp_path / "task.npz"), tmp_path / "here", methods=["aire", "random"],
                    ratios=[0.2, 0.4, 0.6, 0.8], seeds=12)  # fmt: skip
    assert 2 <= begun <= 1 + 4 * 13
    assert lines(tmp_path / "there") == lines(tmp_path / "here")


def test_sharded_pruning_is_bit_identical(nodes, tmp_path):
    source = make_sharded(tmp_path / "in")
    aireprune.prune_file(source, tmp_path / "here", ratio=0.5)
    aireprune.prune_file(source, tmp_path / "there", ratio=0.5, ray=nodes.address)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "in", "there"]


def test_reproduced_tables_have_the_same_rows(nodes, aire, tmp_path, monkeypatch):
    zoo = toy_experiments.make_zoo(tmp_path, monkeypatch)
    for name, where in (("here", ()), ("there", ("--ray", nodes.address))):
        chosen = ("--zoo", zoo, "--models", "image-s5", "--no-page")
        code, _, err = aire("reproduce", "table1", "-o", tmp_path / name, *chosen, *where)
        assert code == 0, err
    here, there = (lines(tmp_path / name / "results" / "image-s5") for name in ("here", "there"))
    assert len(here) == 1 + 3 + 3
    assert there == here


def test_calibration_is_shared(nodes, tmp_path):
    pytest.importorskip("transformers")
    MODELS["mamba"]().save_pretrained(tmp_path / "hf")
    given = np.random.default_rng(0).integers(1, 40, (24, 20))
    choices = {"ratio": 0.5, "method": "aire", "layout": "uniform", "calibrate": given}
    told = []
    for name, ray_ in (("here", None), ("there", nodes.address)):
        job = make_job(None, {**choices, "ray": ray_})
        prune_checkpoint(open_file(tmp_path / "hf"), tmp_path / name, job, report=told.append)
    here, there = (load_file(tmp_path / name / "model.safetensors") for name in ("here", "there"))
    assert sum("is calibrated" in line for line in told) == 2 * 3
    for name, values in here.items():
        np.testing.assert_allclose(there[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
    plans = [json.loads((tmp_path / name / "plan.json").read_text()) for name in ("here", "there")]
    assert plans[0] == plans[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "hf", "there"]


def test_a_team_that_loses_a_worker_starts_again(nodes, tmp_path):
    def work(report):
        import os

        from aireprune.calibration.team import leads, total_number

        if not leads() and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        report("both are here")
        return total_number(3)

    told = []
    assert run_as_team(nodes.address, work, 2, told.append) == 6
    assert told[-1] == "both are here"
    assert sum("was lost" in line for line in told) == 1


def test_what_a_node_lacks_is_one_sentence(nodes, tmp_path):
    model, task = toy_experiments.classification()
    request = SweepRequest(variants=make_variants(("aire",), ("truncate",), True), ratios=(0.5,), calibrate="gone.npy")
    with pytest.raises(AireError, match=r"On a node of the cluster: .*gone\.npy"):
        run_sweep(model, task, request, tmp_path, setting=Setting(run=runner(nodes.address)))


def test_versions_that_differ_are_refused(nodes, monkeypatch):
    connect(nodes.address)
    monkeypatch.setattr("aireprune.cluster.VERSION", "9.9")
    with pytest.raises(AireError, match=r"has aireprune 0\.1\.0, this process 9\.9: their rows could differ"):
        connect(nodes.address)


def test_no_cluster_at_the_address(nodes):
    ray.shutdown()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        for address, why in (
            ("127.0.0.1:1", "refused"),
            ("127.0.0.1:99999", "no port 99999"),
            ("somewhere", "Invalid address"),
            (f"127.0.0.1:{port}", "not Ray|reset by peer"),
        ):
            with pytest.raises(
                AireError, match=rf"There is no Ray cluster at '{address}' that can be used \(.*({why})"
            ):
                connect(address)
