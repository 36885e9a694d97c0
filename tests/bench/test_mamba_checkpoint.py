"""The synthetic checkpoint is one that stock transformers loads."""

from __future__ import annotations

import numpy as np
import torch
from transformers import MambaForCausalLM

from aireprune.bench.mamba_checkpoint import MambaSize, make_mamba_checkpoint
from aireprune.files import open_checkpoint

SMALL = MambaSize(layers=2, d_model=16, d_inner=32, n=4, dt_rank=2, vocab=50)


def test_checkpoint_loads_in_transformers(tmp_path):
    total = make_mamba_checkpoint(tmp_path / "m", SMALL, dtype="float32", shard_bytes=8000)
    checkpoint = open_checkpoint(tmp_path / "m")
    assert sum(4 * int(np.prod(shape)) for shape in checkpoint.shapes.values()) == total
    model, report = MambaForCausalLM.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not report["missing_keys"] - {"lm_head.weight"}
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    with torch.no_grad():
        assert torch.isfinite(model(torch.arange(5)[None]).logits).all()
    np.testing.assert_allclose(model.backbone.layers[1].mixer.A_log.detach()[0], np.log([1, 2, 3, 4]), rtol=1e-6)
