"""Fixtures for all tests."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton: its kernels are checked without a GPU
# before anything imports torch: bfloat16 products die on machines that have AMX but may not use it
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
from helpers import GOLDEN_NAMES, Golden


@pytest.fixture(params=GOLDEN_NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)
