"""S5 at the six sizes of the paper's Long Range Arena models: one layer, whole models of six layers, and how cost grows.

A layer's yardstick is its own matrix products alone (B u once, C times the states of both directions) as torch computes
them, with fresh results as any layer returns them, and into memory that is there already. Weights are random; their
values play no role. Everything that is compared takes turns within one run.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.bench.timing import medians, ratio, take_turns
from aireprune.errors import AireError
from aireprune.experiments.paper.paper import TABLE3
from aireprune.models.s5 import S5SSM, S5Block, S5Model, initialize
from aireprune.models.s5_config import S5Config

LAYERS = 6
OURS, MASKED, REMOVED, PRODUCTS, OTHER = "ours", "masked", "removed", "products", "s5-pytorch"


@dataclass(frozen=True)
class Size:
    """h features, n states (both halves of each pair), L steps, inputs and classes of one of the paper's models."""

    h: int
    n: int
    length: int
    d_input: int
    d_output: int
    removed: float  # share of states

    @property
    def pairs(self) -> int:
        return self.n // 2

    @property
    def kept(self) -> int:
        return max(1, round((1 - self.removed) * self.pairs))

    @property
    def ideal(self) -> float:
        """What removal gains if only matrix products cost time: 6hP multiplications for B, C1 and C2, h² for the gate."""
        return (12 * self.h * self.pairs + 2 * self.h**2) / (12 * self.h * self.kept + 2 * self.h**2)


LRA = {
    name: Size(*sizes, removed=TABLE3[name][0] / 100)
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


def products(layer: S5SSM, u: Tensor, fresh: bool = True) -> Callable[[], object]:
    """The layer's two matrix products alone, with fresh results or into memory that is there already."""
    _, b_bar = layer.discrete()
    b = torch.cat([b_bar.real, b_bar.imag]).detach()
    c = torch.cat([part for c in layer.readouts() for part in (c[..., 0], c[..., 1])], 1).detach()
    u = u.flatten(0, 1)
    x = torch.randn(len(u), c.shape[1], generator=torch.Generator().manual_seed(1))
    if fresh:
        return lambda: (u @ b.T, x @ c.T)
    bu, y = torch.empty(len(u), len(b)), torch.empty(u.shape)
    return lambda: (torch.mm(u, b.T, out=bu), torch.mm(x, c.T, out=y))


def other_layer(size: Size) -> nn.Module | None:
    """s5-pytorch's layer, if it is installed: n states without conjugate symmetry do the work of n/2 pairs."""
    if importlib.util.find_spec("s5") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from s5 import S5

        layer: nn.Module = S5(size.h, state_width=size.n, bidir=True)
    return layer


def _on_other(model: S5Model, size: Size) -> S5Model | None:
    """The same model with s5-pytorch's layers in it, if that is installed."""
    for block in model.layers:
        replacement = other_layer(size)
        if replacement is None:
            return None
        block.seq = replacement
    return model


def bench_layer(size: Size, batch: int, repeats: int, other_repeats: int) -> dict[str, Any]:
    """Median seconds; ratios as (median, lower quartile, upper quartile) over the rounds."""
    u = torch.randn(batch, size.length, size.h, generator=torch.Generator().manual_seed(0))
    layer, masked, removed = (make_layer(size, pairs) for pairs in (size.pairs, size.pairs, size.kept))
    mask(masked, size.kept)
    other = other_layer(size)
    with torch.inference_mode():
        runs = {
            PRODUCTS: products(layer, u),
            "products, in place": products(layer, u, fresh=False),
            OURS: lambda: layer(u),
            MASKED: lambda: masked(u),
            REMOVED: lambda: removed(u),
            "products, removed": products(removed, u),
        }
        difference = float((masked(u) - removed(u)).abs().max() / removed(u).abs().max())
        times = take_turns(runs, repeats)
        slow = take_turns({OURS: runs[OURS], OTHER: lambda: other(u)}, other_repeats) if other is not None else None
    return {
        **_sizes(size, batch),
        "difference": difference,
        "seconds": {**medians(times), **({OTHER: medians(slow)[OTHER]} if slow else {})},
        "ours to products": ratio(times[OURS], times[PRODUCTS]),
        "ours to products in place": ratio(times[OURS], times["products, in place"]),
        "ours to masked": ratio(times[OURS], times[MASKED]),
        "ours to removed": ratio(times[OURS], times[REMOVED]),
        "removed to products": ratio(times[REMOVED], times["products, removed"]),
        "s5-pytorch to ours": ratio(slow[OTHER], slow[OURS]) if slow else None,
    }


def bench_models(name: str, size: Size, batch: int, repeats: int, other_repeats: int) -> dict[str, Any]:
    """A whole model of six layers: dense, with the states removed that the paper removes, and dense on s5-pytorch."""
    inputs = _inputs(size, batch)
    dense, removed = make_model(size, size.pairs), make_model(size, size.kept)
    other = _on_other(make_model(size, size.pairs), size) if other_repeats else None
    with torch.inference_mode():
        times = take_turns({OURS: lambda: dense(inputs), REMOVED: lambda: removed(inputs)}, repeats)
        slow = None
        if other is not None:
            slow = take_turns({OURS: lambda: dense(inputs), OTHER: lambda: other(inputs)}, other_repeats)
    speedup = ratio(times[OURS], times[REMOVED])
    parameters = [sum(p.numel() for p in model.parameters()) for model in (dense, removed)]
    return {
        **_sizes(size, batch),
        "seconds": {**medians(times), **({OTHER: medians(slow)[OTHER]} if slow else {})},
        "speedup": speedup,
        "ideal": size.ideal,
        "share of ideal": speedup[0] / size.ideal,
        "parameters": parameters,
        "reduction": 1 - parameters[1] / parameters[0],
        "s5-pytorch to ours": ratio(slow[OTHER], slow[OURS]) if slow else None,
        "paper": dict(zip(("removed", "speedup on an H100", "reduction"), TABLE3[name], strict=True)),
    }


def bench_scaling(size: Size, batch: int, repeats: int) -> dict[str, Any]:
    """Time of a layer from 1/4 to 4 times its length, batch and states; per unit, relative to the smallest."""
    result: dict[str, Any] = {}
    for what in ("length", "batch", "states"):
        runs: dict[str, Callable[[], object]] = {}
        for factor in (0.25, 0.5, 1, 2, 4):
            scaled = Size(size.h, *_scaled(size, what, factor), size.d_input, size.d_output, size.removed)
            count = int(batch * factor) if what == "batch" else batch
            u = torch.randn(count, scaled.length, scaled.h, generator=torch.Generator().manual_seed(0))
            layer = make_layer(scaled, scaled.pairs)
            label = {"length": scaled.length, "batch": count, "states": scaled.n}[what]
            runs[str(label)] = _call(layer, u)
        with torch.inference_mode():
            times = take_turns(runs, repeats)
        units = {label: values / int(label) for label, values in times.items()}
        first = next(iter(units.values()))
        result[what] = {
            "seconds": medians(times),
            "per unit": {label: ratio(values, first) for label, values in units.items()},
        }
    return result


def _inputs(size: Size, batch: int) -> Tensor:
    """Tokens (b, L) where the task has a vocabulary, else numbers (b, L, 1)."""
    generator = torch.Generator().manual_seed(0)
    if size.d_input > 1:
        return torch.randint(0, size.d_input, (batch, size.length), generator=generator)
    return torch.randn(batch, size.length, 1, generator=generator)


def _scaled(size: Size, what: str, factor: float) -> tuple[int, int]:
    """n and L."""
    return (
        int(size.n * factor) if what == "states" else size.n,
        int(size.length * factor) if what == "length" else size.length,
    )


def _call(layer: nn.Module, u: Tensor) -> Callable[[], object]:
    return lambda: layer(u)


def _sizes(size: Size, batch: int) -> dict[str, Any]:
    return {
        "batch": batch,
        "h": size.h,
        "n": size.n,
        "length": size.length,
        "removed": size.removed,
        "pairs": size.pairs,
        "kept pairs": size.kept,
    }
