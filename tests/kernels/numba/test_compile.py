"""Compiled kernels are kept on disk, not beyond a change of anything they are made of; how they use threads."""

from __future__ import annotations

import ast
import fcntl
import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numba
import pytest
import torch
from forks import forks

from aireprune.kernels.numba import compile as kernels
from aireprune.kernels.scan import diagonal_scan

USER = """
import sys
from pathlib import Path
import llvmlite.binding as llvm
if sys.argv[2] == "other":
    llvm.get_host_cpu_name = lambda: "generic"
from aireprune.kernels.numba import compile as kernels
kernels._HERE = Path(sys.argv[1])
kernels.PATIENCE = float(sys.argv[3])
sys.path.insert(0, sys.argv[1])
import caller
print(caller.twice(1.0), sum(caller.twice.stats.cache_hits.values()))
"""
CALLER = """
from aireprune.kernels.numba.compile import kernel
from helper import once
@kernel()
def twice(x):
    return 2 * once(x)
"""
HELPER = """
from numba import njit
@njit
def once(x):
    return x + 1
"""


def write(folder, helper=HELPER):
    (folder / "caller.py").write_text(CALLER)
    (folder / "helper.py").write_text(helper)


@pytest.fixture(scope="module")
def run():
    """What a kernel of a folder returns in a process of its own, and how often its compiled code was found."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # sources may change within a second
    with forks("import torch, numba; numba.njit(lambda x: x + 1)(1.0)", environment) as forked:

        def run(folder, processor="this", patience=60.0):
            done = forked(USER, folder, processor, patience)
            assert done.returncode == 0, done.stderr
            value, hits = done.stdout.split()
            return float(value), int(hits)

        yield run


def folders(folder):
    return {path.name for path in (folder / "__pycache__").glob("kernels-*")}


def test_a_change_in_a_module_that_is_called_is_noticed(run, tmp_path):
    write(tmp_path)
    assert run(tmp_path) == (4.0, 0)
    assert run(tmp_path) == (4.0, 1)
    write(tmp_path, HELPER.replace("x + 1", "x + 5"))
    assert run(tmp_path) == (12.0, 0)
    assert len(folders(tmp_path)) == 1


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"\x80\x04."])
def test_damaged_code_is_compiled_again(run, tmp_path, suffix, damage):
    write(tmp_path)
    assert run(tmp_path) == (4.0, 0)
    (kept,) = tmp_path.rglob(f"*twice*.{suffix}")
    kept.write_bytes(damage(kept.read_bytes()))
    assert run(tmp_path) == (4.0, 0)
    assert run(tmp_path) == (4.0, 1)


def test_code_that_cannot_be_kept_is_compiled_every_time(run, tmp_path):
    """The folder is there, but a file in it cannot be written: a directory stands in its place."""
    write(tmp_path)
    assert run(tmp_path) == (4.0, 0)
    for kept in [*tmp_path.rglob("*twice*.nb[ic]")]:
        kept.unlink()
        kept.mkdir()
    assert run(tmp_path) == (4.0, 0)
    assert run(tmp_path) == (4.0, 0)


def test_machines_that_share_an_installation_keep_their_kernels(run, tmp_path):
    write(tmp_path)
    assert run(tmp_path) == (4.0, 0)
    (ours,) = folders(tmp_path)
    assert run(tmp_path, "other") == (4.0, 0)
    assert run(tmp_path) == (4.0, 1)
    write(tmp_path, HELPER.replace("x + 1", "x + 5"))
    assert run(tmp_path, "other") == (12.0, 0)
    assert ours in folders(tmp_path)
    assert len(folders(tmp_path)) == 2  # of the other machine's only the newest


def test_what_another_process_is_compiling_is_waited_for(run, tmp_path):
    """The other one is this test: it has the lock, and while the process waits, the files appear."""
    write(tmp_path)
    assert run(tmp_path) == (4.0, 0)
    made = [*tmp_path.rglob("*twice*.nb[ic]")]
    aside = [path.rename(path.with_suffix(".aside")) for path in made]
    (lock,) = tmp_path.rglob("caller.twice.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def end():
            for path, old in zip(made, aside, strict=True):
                old.rename(path)
            fcntl.flock(file, fcntl.LOCK_UN)

        later = threading.Timer(3.0, end)
        later.start()
        assert run(tmp_path) == (4.0, 1)
        later.join()


def test_nobody_waits_for_ever(run, tmp_path):
    write(tmp_path)
    assert run(tmp_path) == (4.0, 0)
    for path in tmp_path.rglob("*twice*.nb[ic]"):
        path.unlink()
    (lock,) = tmp_path.rglob("caller.twice.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert run(tmp_path, patience=0.1) == (4.0, 0)
    assert run(tmp_path) == (4.0, 1)  # it was kept all the same


def test_kernels_are_made_of_nothing_but_the_sources_that_name_their_folder():
    """Else a change elsewhere would go unnoticed by the compiled code; where code is kept is no part of it."""
    sources = sorted(Path(kernels.__file__).parent.glob("*.py"))
    assert len(sources) > 10
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aireprune"):
                allowed = ("aireprune.kernels.numba", "aireprune.folders")
                assert node.module.startswith(allowed), f"{path.name} imports {node.module}"


def test_kernels_use_no_more_threads_than_torch_may(monkeypatch):
    seen = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(numba, "set_num_threads", seen.append)
    monkeypatch.setattr(numba, "get_num_threads", lambda: 2)
    diagonal_scan(torch.tensor([0.5 + 0.1j, 0.2j]), torch.ones(2, 5, 4))
    assert seen == [1, 2]


AT_ONCE = """
import threading, torch
from aireprune.kernels.scan import diagonal_scan
lam, bu = torch.full((4,), 0.5 + 0.1j), torch.randn(4, 500, 8)
found = []
def work():
    for _ in range(20):
        found.append(diagonal_scan(lam, bu))
workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers: worker.start()
for worker in workers: worker.join()
import numba
assert numba.threading_layer() == "workqueue"
assert len(found) == 60 and all(torch.equal(x, found[0]) for x in found)
"""


def test_python_threads_take_turns_where_numba_needs_it():
    environment = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue"}
    done = subprocess.run([sys.executable, "-c", AT_ONCE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_first_kernel_leaves_torchs_threads_alone():
    """With OMP_NUM_THREADS=1 they went from one to two, and sums were rounded in another way from then on."""
    code = (
        "import torch; before = torch.get_num_threads()\n"
        "from aireprune.kernels.scan import diagonal_scan\n"
        "diagonal_scan(torch.tensor([0.5 + 0.1j]), torch.randn(1, 10, 2))\n"
        "print(before, torch.get_num_threads())"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]


def test_compiled_functions_have_names_of_their_own():
    """LLVM finds code that is loaded from disk by the function's name and a number that every process counts anew: functions
    that share a name, made by one factory, would run in each other's place."""
    names: dict[tuple[str, str], object] = {}
    for file in sorted(Path(kernels.__file__).parent.glob("*.py")):
        module = importlib.import_module(f"aireprune.kernels.numba.{file.stem}")
        for found in vars(module).values():
            function = getattr(found, "py_func", None)
            if function is not None:
                key = (function.__module__, function.__qualname__)
                assert names.setdefault(key, function) is function, key
    assert len(names) > 50
