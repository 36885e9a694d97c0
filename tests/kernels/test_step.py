"""How weights are laid out for the kernels of the recurrent mode."""

from __future__ import annotations

import numpy as np

from aireprune.kernels.step import Norm, Weights


def test_sections_are_padded_each_by_itself():
    weights = Weights(np.dtype(np.float32))
    assert weights.lanes == 16
    assert weights.width(3, 17, 0) == 48
    assert weights.places(3, 2).tolist() == [0, 1, 2, 16, 17]
    spread = weights.vector(np.arange(1, 6), 3, 2)
    assert spread[weights.places(3, 2)].tolist() == [1, 2, 3, 4, 5]
    assert spread.sum() == 15
    assert spread.shape == (32,)


def test_arrays_begin_where_it_is_said():
    weights = Weights(np.dtype(np.float32))
    first, second = weights.add(np.arange(3), np.arange(2)), weights.add(np.full(17, 7))
    norm = weights.norm(Norm(kind="layer", scale=np.ones(2), offset=np.zeros(2), eps=0.5))
    found = weights.all()
    assert found[first : first + 5].tolist() == [0, 1, 2, 0, 1]
    assert second % 16 == 0
    assert (found[second : second + 17] == 7).all()
    assert found[norm["norm_at"] + 32] == 0.5
