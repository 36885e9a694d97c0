"""S5 layers and models at the six sizes of the paper's Long Range Arena models, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from aireprune.errors import AireError
from aireprune.experiments.paper.paper import TABLE3
from aireprune.models.s5 import S5SSM, S5Block, S5Model, initialize
from aireprune.models.s5_config import S5Config

LAYERS = 6


@dataclass(frozen=True)
class Size:
    """h features, n states (both halves of each pair), L steps, inputs and classes of one of the paper's models."""

    h: int
    n: int
    length: int
    d_input: int
    d_output: int
    removed_share: float  # of the states, as in the paper

    @property
    def pairs(self) -> int:
        return self.n // 2

    @property
    def kept(self) -> int:
        return max(1, round((1 - self.removed_share) * self.pairs))

    @property
    def ideal(self) -> float:
        """What removal gains if only matrix products cost time: 6hP multiplications for B, C1 and C2, h² for the gate."""
        return (12 * self.h * self.pairs + 2 * self.h**2) / (12 * self.h * self.kept + 2 * self.h**2)


LRA = {
    name: Size(*sizes, removed_share=TABLE3[name][0] / 100)
    for name, sizes in {
        "listops": (128, 16, 2048, 20, 10),
        "text": (256, 192, 4096, 135, 2),
        "retrieval": (128, 256, 4000, 98, 2),
        "image": (512, 384, 1024, 1, 10),
        "pathfinder": (192, 256, 1024, 1, 2),
        "pathx": (128, 256, 16384, 1, 2),
    }.items()
}


def chosen(tasks: Sequence[str]) -> dict[str, Size]:
    """The sizes with these names; all of them if none is given."""
    for task in tasks:
        if task not in LRA:
            raise AireError(f"There is no LRA size {task!r}. Known are {', '.join(LRA)}.")
    return {name: size for name, size in LRA.items() if not tasks or name in tasks}


def make_model(size: Size, pairs: int, layers: int = LAYERS) -> S5Model:
    config = S5Config(
        d_input=size.d_input,
        d_output=size.d_output,
        h=size.h,
        n=size.n,
        layers=layers,
        bidirectional=True,
        C_init="lecun_normal",
    )
    model = initialize(S5Model(config))
    return model.eval() if pairs == size.pairs else _cut(model, config, pairs).eval()


def _cut(model: S5Model, config: S5Config, pairs: int) -> S5Model:
    """The model with the first `pairs` modes of every layer."""
    small = S5Model(replace(config, states=(pairs,) * config.layers))
    weights = small.state_dict()
    for name, tensor in model.state_dict().items():
        weights[name] = tensor[tuple(slice(0, length) for length in weights[name].shape)]
    small.load_state_dict(weights)
    return small


def make_layer(size: Size, pairs: int) -> S5SSM:
    block = make_model(size, pairs, layers=1).layers[0]
    assert isinstance(block, S5Block)
    return block.seq


def mask(layer: S5SSM, kept: int) -> S5SSM:
    """All but the first `kept` modes silenced by zeros, as the published code does it."""
    for name in ("B", "C1", "C2"):
        getattr(layer, name).data[(slice(None),) * (name != "B") + (slice(kept, None),)] = 0
    return layer


def random_inputs(size: Size, batch: int) -> Tensor:
    """Tokens (b, L) where the task has a vocabulary, else numbers (b, L, 1)."""
    generator = torch.Generator().manual_seed(0)
    if size.d_input > 1:
        return torch.randint(0, size.d_input, (batch, size.length), generator=generator)
    return torch.randn(batch, size.length, 1, generator=generator)
