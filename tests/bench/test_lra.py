"""The sizes of the paper's models, and what their names and ratios promise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aireprune.bench.lra import LRA, chosen, make_layer, make_model, mask, random_inputs
from aireprune.errors import AireError

TINY = replace(LRA["text"], h=8, n=10, length=20, d_input=3)


def test_ideal_gains_are_those_of_the_arithmetic():
    ideal = {name: round(size.ideal, 2) for name, size in LRA.items()}
    assert ideal == {"listops": 1.07, "text": 2.25, "retrieval": 1.75, "image": 1.82, "pathfinder": 2.76, "pathx": 2.52}


def test_sizes_by_name():
    assert chosen([]) == LRA
    assert chosen(["image"]) == {"image": LRA["image"]}
    with pytest.raises(AireError, match="Known are listops"):
        chosen(["imagenet"])


def test_a_masked_layer_is_the_smaller_layer():
    u = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(mask(make_layer(TINY, 5), 2)(u), make_layer(TINY, 2)(u))


@pytest.mark.parametrize("d_input", [1, 3])
def test_models_take_the_random_inputs(d_input):
    size = replace(TINY, d_input=d_input)
    assert make_model(size, size.kept, layers=2)(random_inputs(size, 4)).shape == (4, 2)
