"""Exported models beside our own kernels: every figure is there, and the outputs are the same."""

from __future__ import annotations

import pytest
import small_models

import aireprune
from aireprune.exports.request import ExportRequest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'aireprune[onnx]')")

from aireprune.bench.export import OURS, THEIRS, bench_export


def test_dense_and_pruned(tmp_path):
    aireprune.save(small_models.s5(), tmp_path / "dense")
    aireprune.prune_file(tmp_path / "dense", tmp_path / "pruned", ratio=0.5)
    found = bench_export([tmp_path / "dense", tmp_path / "pruned"], None, ExportRequest(to="onnx"), (2, 40), 2)
    dense, pruned = found["models"]["dense"], found["models"]["pruned"]
    assert pruned["bytes"] < dense["bytes"]
    assert max(dense["difference"], pruned["difference"]) < 1e-5
    assert dense["speedup"] == {OURS: (1, 1, 1), THEIRS: (1, 1, 1)}
    assert pruned["ours to theirs"][0] > 0


def test_a_transformers_folder(tmp_path):
    pytest.importorskip("transformers")
    from foreign_models import MODELS

    MODELS["mamba2"]().save_pretrained(tmp_path / "folder")
    found = bench_export([tmp_path / "folder"], None, ExportRequest(to="onnx"), (1, 20), 1)
    assert found["models"]["folder"]["difference"] < 1e-4
