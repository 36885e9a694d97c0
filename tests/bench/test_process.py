"""Time and memory of a process are its own."""

from __future__ import annotations

import os
import sys

import pytest

from aireprune.bench.process import high_water, run_command
from aireprune.errors import AireError


def test_time_and_peak_memory_of_a_command():
    program = "import time; block = bytearray(200_000_000); time.sleep(0.2)"
    seconds, peak = run_command([sys.executable, "-c", program])
    assert seconds > 0.2
    assert 2e8 < peak < 3e8


def test_a_command_that_fails_says_why():
    with pytest.raises(AireError, match=r"failed: .*no such thing"):
        run_command([sys.executable, "-c", "raise SystemExit('no such thing')"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps it")
def test_peak_of_a_running_process():
    assert high_water(os.getpid()) > 1e6
    assert high_water(2**30) == 0  # there is no such process
