"""S5 at the six sizes of the paper's Long Range Arena models: one layer, whole models of six layers, and how cost grows.

A layer's yardstick is its own matrix products alone (B u once, C times the states of both directions) as torch computes
them, with results in fresh memory, as any layer returns them, and in memory that is allocated already. Weights are
random; their values play no role. Everything that is compared takes turns within one run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.bench.lra import Size, make_layer, make_model, mask, random_inputs
from aireprune.bench.s5_pytorch import OTHER, s5_pytorch_layer
from aireprune.experiments.paper.paper import TABLE3
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.models.s5 import S5SSM, S5Model

OURS, MASKED, REMOVED, PRODUCTS = "ours", "masked", "removed", "products"


def products(layer: S5SSM, u: Tensor, fresh: bool = True) -> Callable[[], object]:
    """The layer's two matrix products alone, into fresh memory, or into memory that is allocated already."""
    _, b_bar = layer.discrete()
    b = torch.cat([b_bar.real, b_bar.imag]).detach()
    c = torch.cat([part for c in layer.readouts() for part in (c[..., 0], c[..., 1])], 1).detach()
    u = u.flatten(0, 1)
    x = torch.randn(len(u), c.shape[1], generator=torch.Generator().manual_seed(1))
    if fresh:
        return lambda: (u @ b.T, x @ c.T)
    bu, y = torch.empty(len(u), len(b)), torch.empty(u.shape)
    return lambda: (torch.mm(u, b.T, out=bu), torch.mm(x, c.T, out=y))


def _on_s5_pytorch(model: S5Model, size: Size) -> S5Model | None:
    """The same model with s5-pytorch's layers in it, if that is installed."""
    for block in model.layers:
        replacement = s5_pytorch_layer(size.h, size.n)
        if replacement is None:
            return None
        block.seq = replacement
    return model


def bench_layer(size: Size, batch: int, repeats: int, other_repeats: int) -> dict[str, Any]:
    """Median seconds; ratios as (median, lower quartile, upper quartile) over the rounds."""
    u = torch.randn(batch, size.length, size.h, generator=torch.Generator().manual_seed(0))
    layer, masked, removed = (make_layer(size, pairs) for pairs in (size.pairs, size.pairs, size.kept))
    mask(masked, size.kept)
    other = s5_pytorch_layer(size.h, size.n)
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
        "ours to products": speedup(times[OURS], times[PRODUCTS]),
        "ours to products in place": speedup(times[OURS], times["products, in place"]),
        "ours to masked": speedup(times[OURS], times[MASKED]),
        "ours to removed": speedup(times[OURS], times[REMOVED]),
        "removed to products": speedup(times[REMOVED], times["products, removed"]),
        "s5-pytorch to ours": speedup(slow[OTHER], slow[OURS]) if slow else None,
    }


def bench_models(name: str, size: Size, batch: int, repeats: int, other_repeats: int) -> dict[str, Any]:
    """A whole model of six layers: dense, without the states that the paper removes, and dense on s5-pytorch."""
    inputs = random_inputs(size, batch)
    dense, removed = make_model(size, size.pairs), make_model(size, size.kept)
    other = _on_s5_pytorch(make_model(size, size.pairs), size) if other_repeats else None
    with torch.inference_mode():
        times = take_turns({OURS: lambda: dense(inputs), REMOVED: lambda: removed(inputs)}, repeats)
        slow = None
        if other is not None:
            slow = take_turns({OURS: lambda: dense(inputs), OTHER: lambda: other(inputs)}, other_repeats)
    faster = speedup(times[OURS], times[REMOVED])
    parameters = [sum(p.numel() for p in model.parameters()) for model in (dense, removed)]
    return {
        **_sizes(size, batch),
        "seconds": {**medians(times), **({OTHER: medians(slow)[OTHER]} if slow else {})},
        "speedup": faster,
        "ideal": size.ideal,
        "share of ideal": faster[0] / size.ideal,
        "parameters": parameters,
        "reduction": 1 - parameters[1] / parameters[0],
        "s5-pytorch to ours": speedup(slow[OTHER], slow[OURS]) if slow else None,
        "paper": dict(zip(("removed", "speedup on an H100", "reduction"), TABLE3[name], strict=True)),
    }


def bench_scaling(size: Size, batch: int, repeats: int) -> dict[str, Any]:
    """Time of a layer from 1/4 to 4 times its length, batch and states; per unit, relative to the smallest."""
    result: dict[str, Any] = {}
    for what in ("length", "batch", "states"):
        runs: dict[str, Callable[[], object]] = {}
        for factor in (0.25, 0.5, 1, 2, 4):
            scaled = _scaled(size, what, factor)
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
            "per unit": {label: speedup(values, first) for label, values in units.items()},
        }
    return result


def _scaled(size: Size, what: str, factor: float) -> Size:
    """The size with more or fewer states or steps; a larger batch leaves it as it is."""
    if what == "states":
        return replace(size, n=int(size.n * factor))
    return replace(size, length=int(size.length * factor)) if what == "length" else size


def _call(layer: nn.Module, u: Tensor) -> Callable[[], object]:
    return lambda: layer(u)


def _sizes(size: Size, batch: int) -> dict[str, Any]:
    return {
        "batch": batch,
        "h": size.h,
        "n": size.n,
        "length": size.length,
        "removed": size.removed_share,
        "pairs": size.pairs,
        "kept pairs": size.kept,
    }
