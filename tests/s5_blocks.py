"""S5 blocks and models with random weights, for tests of the fused operator."""

from __future__ import annotations

import torch

from aireprune.models.s5 import S5Block, S5Model, initialize
from aireprune.models.s5_config import S5Config


def block(seed=0, h=10, modes=7, dtype=torch.float64, **changes) -> S5Block:
    config = S5Config(d_input=1, d_output=1, h=h, n=2 * max(modes, 1), layers=1, **{"bidirectional": True, **changes})
    found = initialize(S5Model(config), seed).layers[0]
    if modes == 0:
        found = S5Block(config, 0)
        torch.nn.init.normal_(found.seq.D)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (
            found.norm.weight,
            found.norm.bias,
            *(getattr(found, o).bias for o in ("out1", "out2") if hasattr(found, o)),
        ):
            tensor.add_(torch.randn(tensor.shape, generator=random) * 0.3)
        if config.batchnorm:
            found.norm.running_mean.normal_(generator=random)
            found.norm.running_var.uniform_(0.5, 2, generator=random)
    return found.to(dtype).eval()


def inputs(batch=2, length=50, h=10, dtype=torch.float64):
    return torch.randn(batch, length, h, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def both(module, z):
    """With gradients, so part by part, and without, so as one operator."""
    apart = module(z).detach()
    with torch.no_grad():
        return apart, module(z)


def small_model(**changes) -> S5Model:
    given = {"d_input": 8, "d_output": 2, "h": 8, "n": 12, "layers": 2, "C_init": "lecun_normal", **changes}
    return initialize(S5Model(S5Config(**given))).eval()
