"""How operators get at the memory of tensors, and when they have to leave a call to torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_checks import draw

from aireprune.kernels.inputs import columns, dense, expect, forward_mode, needs_grad


def test_a_shape_that_does_not_fit_is_named():
    expect("scan", x=(draw(2, 3), (2, 3)), bias=(None, (3,)))
    with pytest.raises(ValueError, match=r"scan: x has the shape \(2, 3\), expected \(3, 2\)"):
        expect("scan", x=(draw(2, 3), (3, 2)))


def test_contiguous_memory_is_handed_on_and_other_memory_copied():
    x = draw(3, 4).requires_grad_()
    assert dense(x).ctypes.data == x.data_ptr()
    np.testing.assert_array_equal(dense(x.T), x.detach().numpy().T)
    assert dense(x.T).flags["C_CONTIGUOUS"]


@pytest.mark.parametrize("columns_of", [slice(0, 3), slice(3, 7), slice(6, 7)])
def test_columns_of_a_projection_are_not_copied(columns_of):
    whole = draw(2, 5, 7)
    part = whole[..., columns_of]
    array, first = columns(part)
    assert array.ctypes.data == whole.data_ptr()
    np.testing.assert_array_equal(array[..., first : first + part.shape[2]], part.numpy())


@pytest.mark.parametrize(
    "x", [draw(2, 5, 7), draw(2, 5, 7)[:, 1:], draw(2, 7, 5).transpose(1, 2), draw(2, 5, 1).expand(2, 5, 3)]
)
def test_anything_else_comes_as_a_whole(x):
    array, first = columns(x)
    assert first == 0
    np.testing.assert_array_equal(array, x.numpy())


def test_gradients_that_are_wanted():
    x = draw(3).requires_grad_()
    assert needs_grad(None, draw(3), x)
    assert not needs_grad(None, x.detach())
    with torch.no_grad():
        assert not needs_grad(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch itself
def test_forward_mode_is_noticed():
    seen = []
    torch.func.jvp(lambda x: (seen.append(forward_mode()), x)[1], (draw(3),), (draw(3),))
    assert seen == [True]
    assert not forward_mode()
