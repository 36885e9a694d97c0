"""torch.export programs run where aireprune cannot be imported, at other sizes than they were made with."""

from __future__ import annotations

import os

import numpy as np
import pytest
import small_models
import torch
from foreign_models import transformers_model
from forks import forks

import aireprune

IMPORTS = """
import sys, warnings
warnings.simplefilter("ignore")
sys.modules["aireprune"] = None  # importing it fails
import numpy, torch, torch._dynamo, torch._export.serde.serialize
"""
ALONE = """
import sys
import numpy as np
import torch
program = torch.export.load(sys.argv[1]).module()
given = [torch.from_numpy(array) for array in np.load(sys.argv[2]).values()]
np.save(sys.argv[3], program(*given).detach().numpy())
"""


@pytest.fixture(scope="module")
def run_alone():
    """What the program in a folder makes of arrays, in a process of its own."""
    with forks(IMPORTS, os.environ) as forked:

        def run_alone(folder, *given):
            np.savez(folder / "given.npz", *given)
            done = forked(ALONE, *(folder / name for name in ("model.pt2", "given.npz", "found.npy")))
            assert done.returncode == 0, done.stderr
            return np.load(folder / "found.npy")

        yield run_alone


MODELS = {
    "s5": lambda: small_models.s5(layers=1, bidirectional=True),
    "s4d": small_models.s4d,
    "mamba": small_models.mamba,
    "mamba2": lambda: small_models.mamba2(layers=1),
}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_pruned_model_without_aireprune(name, run_alone, tmp_path):
    model = aireprune.prune(MODELS[name](), ratio=0.4)
    done = aireprune.export(model, tmp_path / "model.pt2")
    assert done.difference < 1e-5
    x, lengths = torch.randn(5, 51, 2), torch.tensor([51, 3, 20, 1, 50])
    found = run_alone(tmp_path, x.numpy(), lengths.numpy())
    wanted = model(x, lengths).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)


@torch.no_grad()
def test_a_language_model_of_transformers(run_alone, tmp_path):
    pytest.importorskip("transformers")
    model = transformers_model("Mamba", state_size=6, num_hidden_layers=1)
    aireprune.export(model, tmp_path / "model.pt2")
    tokens = torch.randint(0, 40, (3, 29))
    wanted = model(tokens).logits.numpy()
    found = run_alone(tmp_path, tokens.numpy())
    np.testing.assert_allclose(found, wanted, atol=5e-5 * np.abs(wanted).max(), rtol=0)
