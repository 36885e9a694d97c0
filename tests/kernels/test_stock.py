"""Models that are traced, or run on tensors without numbers: hand-written steps would be left out of the record."""

from __future__ import annotations

import io
from contextlib import nullcontext
from typing import Any

import pytest
import small_models
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

MODELS = (small_models.s5, small_models.s4d, small_models.mamba, small_models.mamba2)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("make", MODELS)
def test_a_trace_answers_as_the_model_on_other_inputs(make: Any, grad: bool) -> None:
    model = make()
    first, other = (torch.as_tensor(small_models.inputs(seed=seed)).float()[:2] for seed in (0, 1))
    with nullcontext() if grad else torch.no_grad():
        traced = torch.jit.trace(model, (first,), check_trace=False)
        torch.testing.assert_close(traced(other), model(other), rtol=1e-4, atol=1e-5)
    torch.jit.save(traced, io.BytesIO())


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("make", MODELS)
def test_tensors_without_numbers(make: Any, grad: bool) -> None:
    model, mode = make(), FakeTensorMode(allow_non_fake_inputs=True)
    x = torch.as_tensor(small_models.inputs()).float()
    with nullcontext() if grad else torch.no_grad(), mode:
        assert model(mode.from_tensor(x)).shape == (len(x), 3)
