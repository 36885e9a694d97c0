"""Wall time and peak memory of a process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from aireprune.errors import AireError


def run_command(command: Sequence[str]) -> tuple[float, int]:
    """Seconds and peak resident memory (bytes) of a command, run to its end.

    The peak that wait4 reports counts the process from before it became the command, when it still was a copy of this
    one. Where the system keeps the peak of the command itself (Linux: VmHWM), that is read while it runs.
    """
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        peak = 0
        while True:
            peak = max(peak, high_water(process.pid))
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.005)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            message = errors.read().decode(errors="replace").strip()
            raise AireError(f"{' '.join(command)} failed: {message[-500:]}")
    return seconds, peak or usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def high_water(pid: int) -> int:
    """Peak resident memory of a process in bytes, where the system keeps it (Linux); else 0."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)
