"""Triton's kernels register themselves with the operators."""

from __future__ import annotations

import importlib.util

import torch

from aireprune.kernels.triton.support import have_triton


def test_the_operators_have_a_cuda_implementation_where_triton_is_installed() -> None:
    assert have_triton() == (importlib.util.find_spec("triton") is not None)
    for name in ("diagonal_scan", "diagonal_scan_backward", "selective_scan"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"aireprune::{name}", "CUDA") == have_triton()
