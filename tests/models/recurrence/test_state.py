"""States as plain arrays, and arrays that are no state."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import mamba, s4d, s5
from torch_checks import draw

from aireprune.errors import AireError
from aireprune.models.editing import resize_module
from aireprune.models.recurrence.state import consecutive


def test_shapes_and_bytes():
    state = resize_module(s5(), [5, 2]).initial_state(3)
    assert {name: array.shape for name, array in state.arrays().items()} == {
        "layers.0.state": (3, 2, 5),
        "layers.1.state": (3, 2, 2),
        "seen": (3,),
        "pooled": (3, 6),
    }
    assert state.nbytes == 3 * (4 * 2 * 7 + 8 + 8 * 6)
    assert repr(state) == "State(batch=3, nbytes=336, arrays=layers.0.state, layers.1.state, seen, pooled)"


def test_states_are_those_of_caches():
    """What a Mamba remembers is what its caches hold."""
    model, x = mamba(), draw(2, 9, 2)
    stream, caches = model.stream([x]), model.new_caches(2)
    next(stream)
    model(x, caches=caches)
    arrays = stream.state.arrays()
    for number, cache in enumerate(caches):
        np.testing.assert_allclose(arrays[f"layers.{number}.inputs"], cache.inputs.detach(), atol=1e-6)
        np.testing.assert_allclose(arrays[f"layers.{number}.state"], cache.state.detach(), atol=1e-6)


def test_silent_modes_take_no_memory():
    model = s4d()
    full = model.initial_state().nbytes
    model.s4_layers[0].kernel.C.data[:, 3:] = 0
    model.s4_layers[0].kernel.C.data = model.s4_layers[0].kernel.C.data.clone()
    assert full - model.initial_state().nbytes == 2 * 4 * 6 * 5


def test_what_is_no_state():
    model = s5()
    arrays = model.initial_state(2).arrays()
    with pytest.raises(AireError, match=r"not a state of this model: layers\.1\.state is missing"):
        model.restore_state({name: array for name, array in arrays.items() if name != "layers.1.state"})
    with pytest.raises(AireError, match="not a state of this model: other is not part of it"):
        model.restore_state({**arrays, "other": np.zeros(2)})
    with pytest.raises(AireError, match=r"layers\.0\.state has the shape \(2, 2, 7\), expected \(2, 2, 8\)"):
        model.restore_state({**arrays, "layers.0.state": np.zeros((2, 2, 7))})


def test_consecutive_places():
    places, size = consecutive({"a": (2, 2), "b": (0,), "c": (1,)})
    assert size == 5
    assert places["a"].tolist() == [[0, 1], [2, 3]]
    assert places["c"].tolist() == [4]
