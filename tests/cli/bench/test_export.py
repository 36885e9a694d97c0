"""aire bench export: the table."""

from __future__ import annotations

import pytest
import small_models

import aireprune

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'aireprune[onnx]')")


def test_the_table_has_both_engines(aire, tmp_path):
    aireprune.save(small_models.mamba(), tmp_path / "dense")
    aireprune.prune_file(tmp_path / "dense", tmp_path / "pruned", ratio=0.5)
    code, out, _ = aire("bench", "export", tmp_path / "dense", tmp_path / "pruned", "--length", 30, "--repeats", 1)
    assert code == 0
    for line in ("ONNX file", "onnxruntime", "our kernels", "times faster", "onnxruntime / our kernels"):
        assert line in out
