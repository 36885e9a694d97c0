"""Fixtures for all tests."""

from __future__ import annotations

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton: its kernels are checked without a GPU
# before anything imports torch: bfloat16 products die on machines that have AMX but may not use it
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# before anything imports JAX: tests compare numbers, and compiling for speed takes most of a minute of them
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import pytest
from helpers import GOLDEN_NAMES, Golden
from shared_data import SHARED

os.environ["AIRE_DATA"] = str(SHARED)  # also of the commands that tests start


@pytest.fixture(params=GOLDEN_NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


@pytest.fixture
def aire(capsys, monkeypatch):
    """Run a command in this process: (exit status, standard output, standard error)."""
    from aireprune.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["aire", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
