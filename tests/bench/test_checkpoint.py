"""The synthetic checkpoint is one that stock transformers loads, and the measurement measures."""

import sys

import numpy as np
import torch
from transformers import MambaForCausalLM

from aireprune.bench.checkpoint import bench_checkpoint, make_mamba_checkpoint
from aireprune.files import open_checkpoint

SMALL = {"layers": 2, "d_model": 16, "d_inner": 32, "n": 4, "dt_rank": 2, "vocab": 50, "shard_bytes": 4000}


def test_checkpoint_loads_in_transformers(tmp_path):
    total = make_mamba_checkpoint(tmp_path / "m", dtype="float32", **{**SMALL, "shard_bytes": 8000})
    checkpoint = open_checkpoint(tmp_path / "m")
    assert sum(4 * int(np.prod(shape)) for shape in checkpoint.shapes.values()) == total
    model, report = MambaForCausalLM.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not report["missing_keys"] - {"lm_head.weight"}
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    with torch.no_grad():
        assert torch.isfinite(model(torch.arange(5)[None]).logits).all()
    np.testing.assert_allclose(model.backbone.layers[1].mixer.A_log.detach()[0], np.log([1, 2, 3, 4]), rtol=1e-6)


def test_measurement(tmp_path):
    make_mamba_checkpoint(tmp_path / "m", **SMALL)
    program = "import sys, shutil; shutil.copytree(sys.argv[1], sys.argv[2])"
    found = bench_checkpoint(
        tmp_path / "m", lambda a, b: [sys.executable, "-c", program, str(a), str(b)], tmp_path / "w", repeats=2
    )
    assert len(found["cp_seconds"]) == len(found["prune_seconds"]) == 2
    assert 1e6 < found["peak_rss_bytes"] < 1e8
    assert not any((tmp_path / "w").iterdir())
