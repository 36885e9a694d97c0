"""The measurement runs cp and a command in turns, and cleans up after both."""

from __future__ import annotations

import sys

from aireprune.bench.checkpoint import bench_checkpoint
from aireprune.bench.mamba_checkpoint import MambaSize, make_mamba_checkpoint

SMALL = MambaSize(layers=2, d_model=16, d_inner=32, n=4, dt_rank=2, vocab=50)


def test_measurement(tmp_path):
    make_mamba_checkpoint(tmp_path / "m", SMALL, shard_bytes=4000)
    program = "import sys, shutil; shutil.copytree(sys.argv[1], sys.argv[2])"
    found = bench_checkpoint(
        tmp_path / "m", lambda a, b: [sys.executable, "-c", program, str(a), str(b)], tmp_path / "w", repeats=2
    )
    assert len(found["cp_seconds"]) == len(found["prune_seconds"]) == 2
    assert 1e6 < found["peak_rss_bytes"] < 1e8
    assert not any((tmp_path / "w").iterdir())
