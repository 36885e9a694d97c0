"""The s5-pytorch layout on disk: a stack of its layers in our structure, and its own modules by themselves."""

from __future__ import annotations

import pytest
import torch

import aireprune
from aireprune.models.s5 import S5Model, initialize
from aireprune.models.s5_config import S5Config


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_classifier_whose_layers_are_stored_as_s5_pytorch_stores_them(tmp_path, bidirectional):
    config = S5Config(
        d_input=3, d_output=4, h=8, n=10, layers=2, conj_sym=False, bidirectional=bidirectional, C_init="complex_normal"
    )
    model = initialize(S5Model(config)).eval()
    state = model.state_dict()
    for number in range(2):
        prefix = f"layers.{number}.seq."
        state[prefix + "Lambda"] = torch.complex(state.pop(prefix + "Lambda_re"), state.pop(prefix + "Lambda_im"))
        state[prefix + "C"] = torch.view_as_complex(state[prefix + "C"].contiguous())
        state[prefix + "log_step"] = state[prefix + "log_step"][:, 0]
    torch.save(state, tmp_path / "model.pt")
    given = {"discretization": "zoh", "prenorm": True, "mode": "pool", "activation": "half_glu2"}
    x = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(aireprune.load(tmp_path / "model.pt", given)(x), model(x))
        options = {"ratio": 0.5, "reduce": "truncate", "layout": "adaptive"}
        aireprune.prune_file(tmp_path / "model.pt", tmp_path / "small.pt", **options)
        expected = aireprune.prune(model, mask=True, **options)(x)
        torch.testing.assert_close(aireprune.load(tmp_path / "small.pt", given)(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_pruned_file_loads_in_s5_pytorch(tmp_path, bidirectional):
    s5 = pytest.importorskip("s5")
    torch.manual_seed(0)
    layer = s5.S5(6, state_width=8, bidir=bidirectional)
    torch.save(layer.state_dict(), tmp_path / "in.pt")
    plan = aireprune.prune_file(tmp_path / "in.pt", tmp_path / "out.pt", ratio=0.5, reduce="truncate")
    smaller = s5.S5(6, state_width=len(plan.layers[0].kept), bidir=bidirectional)
    smaller.load_state_dict(torch.load(tmp_path / "out.pt", weights_only=True))
    x = torch.randn(2, 15, 6)
    with torch.no_grad():
        masked = aireprune.prune(layer, plan, mask=True)
        torch.testing.assert_close(smaller(x), masked(x), rtol=1e-5, atol=1e-6)
