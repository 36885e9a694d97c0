"""Compiled kernels are kept on disk, and not beyond a change of anything they are made of."""

from __future__ import annotations

import subprocess
import sys

USER = """
import sys
from pathlib import Path
from aireprune.kernels.numba import compile as kernels
kernels._HERE = Path(sys.argv[1])
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


def run(folder):
    done = subprocess.run([sys.executable, "-c", USER, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    value, hits = done.stdout.split()
    return float(value), int(hits)


def test_a_change_in_a_module_that_is_called_is_noticed(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "helper.py").write_text(HELPER)
    assert run(tmp_path) == (4.0, 0)
    assert run(tmp_path) == (4.0, 1)
    (tmp_path / "helper.py").write_text(HELPER.replace("x + 1", "x + 5"))
    assert run(tmp_path) == (12.0, 0)
    assert len(list((tmp_path / "__pycache__").glob("kernels-*"))) == 1
