"""The Triton kernel of the selective scan in Triton's interpreter, on CPU tensors, against the plain torch recurrence."""

from __future__ import annotations

import importlib.util

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from aireprune.kernels.selective import selective_scan_reference
from aireprune.kernels.triton import selective as triton_selective


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("d", "n"), [(5, 3), (33, 1), (3, 9), (4, 16), (2, 21), (3, 0)])
def test_selective_scan(d: int, n: int, gated: bool) -> None:
    torch.manual_seed(0)
    shapes = ((2, 6, d), (2, 6, d), (d, n), (2, 6, n), (2, 6, n), (d,), (d,), (2, 6, 2 * d), (2, d, n))
    x, dt, A, B, C, D, bias, both, initial = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    z = both[..., d:] if gated else None  # half of a projection, as in the model
    arguments = (x, dt, -torch.exp(A), B, C, D, bias, z, initial)
    found, expected = triton_selective.triton_selective_scan(*arguments), selective_scan_reference(*arguments)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def test_tiles_leave_few_columns_empty() -> None:
    assert [triton_selective.tile_width(n) for n in (1, 4, 5, 8, 16, 17)] == [1, 4, 8, 8, 16, 8]
    for n in range(1, 65):
        width = triton_selective.tile_width(n)
        assert -(-n // width) * width - n < 8
