"""Tensors of a state space layer that its family does not know: cut as the user declared, or refused.

A layer may be a customised one, with further tensors along its states or a second set of those that are known. Cut in
the known ones only it would be inconsistent: its own class refuses the file, and states that were masked still speak.
So every tensor under a layer's prefix has to be known by name or declared (`StateAxes`), or to have nothing about it
that points to states. Two things do: an axis as long as those that states lie along (`Family.axis_lengths`), and the
name of a tensor that holds states with something added to it (A_b_log, x_proj_b.weight, A_log_bwd, C_base).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from aireprune.arrays import Shape
from aireprune.errors import AireError, did_you_mean
from aireprune.families.base import Family, Layer
from aireprune.families.cuts import AxisCut, Cut, RaggedCut
from aireprune.families.state_axes import StateAxes

SHOWN = 12  # tensors that an error lists
GATES = ("B", "C")  # with one of these in front a tensor has to do with states in every family


def settle_leftovers(
    layers: Sequence[Layer[Any]], shapes: Mapping[str, Shape], axes: StateAxes, families: Mapping[str, Family[Any]]
) -> list[Layer[Any]]:
    """The layers with the cuts of declared tensors; an error where others may hold states."""
    settled = []
    for layer, unknown in zip(layers, _unknown(layers, shapes, families), strict=True):
        family, cuts, suspicious = families[layer.family], dict[str, Cut](), dict[str, Shape]()
        for name in unknown:
            declaration = axes.of(name)
            if declaration is None:
                if _is_suspicious(layer, family, name, shapes[name]):
                    suspicious[name] = shapes[name]
            elif declaration[1] is not None:
                cuts[name] = _declared_cut(layer, family, name, shapes[name], declaration[1])
        if suspicious:
            raise _refusal(layer, family, suspicious)
        settled.append(replace(layer, declared=cuts))
    return settled


def check_declarations(
    layers: Sequence[Layer[Any]], shapes: Mapping[str, Shape], axes: StateAxes, families: Mapping[str, Family[Any]]
) -> None:
    """Raise if a declaration speaks of no tensor that needs one."""
    unknown = _unknown(layers, shapes, families)
    spoken_of = {axes.of(name) for names in unknown for name in names}
    for declaration in axes.declared:
        if declaration not in spoken_of:
            raise AireError(
                f"state_axis= names {declaration[0]}, but there is no such tensor in a state space layer, or it is one "
                f"that is known already.{did_you_mean(declaration[0], set(chain(*unknown)))}"
            )


def _unknown(
    layers: Sequence[Layer[Any]], shapes: Mapping[str, Shape], families: Mapping[str, Family[Any]]
) -> list[list[str]]:
    """The names under each layer's prefix, and under no deeper one, that its family does not know."""
    number = {layer.name: index for index, layer in enumerate(layers)}
    known = {name for layer in layers for name in layer.arrays.values()}
    found: list[list[str]] = [[] for _ in layers]
    for name in shapes:
        module = name.rpartition(".")[0]
        while module and module not in number:
            module = module.rpartition(".")[0]
        if module not in number or name in known:
            continue
        layer = layers[number[module]]
        if layer.relative(name) not in families[layer.family].stock:
            found[number[module]].append(name)
    return found


def _is_suspicious(layer: Layer[Any], family: Family[Any], name: str, shape: Shape) -> bool:
    """Whether anything about an unknown tensor points to states; a layer that has none left has none to lose."""
    if not layer.states:
        return False
    lengths = family.axis_lengths(layer)
    if any(size in lengths for size in shape):
        return True
    words, holders = _words(layer.relative(name)), map(layer.relative, layer.arrays.values())
    return words[0] in GATES or any(_within(_words(holder), words) for holder in holders)


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Za-z]+|\d+", name) or [""]


def _within(few: list[str], many: list[str]) -> bool:
    """Whether the words of one name occur in another in the same order."""
    rest = iter(many)
    return all(word in rest for word in few)


def _declared_cut(layer: Layer[Any], family: Family[Any], name: str, shape: Shape, axis: int) -> Cut:
    cut = _cut(layer, family, shape, axis)
    if cut is None:
        raise AireError(
            f"state_axis= says that axis {axis} of {name} {tuple(shape)} holds the states of layer {layer.name}, but "
            f"they cannot be found there: {_expected(layer, family)}"
        )
    return cut


def _cut(layer: Layer[Any], family: Family[Any], shape: Shape, axis: int) -> Cut | None:
    """How a tensor is cut along an axis of states; None if they cannot be found on it. Silenced states are zero."""
    if axis >= len(shape):
        return None
    if layer.rows > 1:  # every row chooses its own
        modes = layer.states // layer.rows
        fits = axis > 0 and shape[axis] == modes and shape[axis - 1] % layer.rows == 0
        return RaggedCut(axis - 1, layer.rows, modes, silent=True) if fits else None
    positions = family.axis_lengths(layer).get(shape[axis])
    return None if positions is None else AxisCut(axis, positions, silent=True, groups=layer.groups)


def _expected(layer: Layer[Any], family: Family[Any]) -> str:
    """What an axis has to be like for states to be found on it."""
    if layer.rows > 1:
        return (
            f"where every channel chooses its own states, their axis is {layer.states // layer.rows} long and follows "
            f"one over the {layer.rows} channels. With granularity='state' it may stand alone."
        )
    lengths = [str(size) for size, positions in family.axis_lengths(layer).items() if positions is not None]
    if not lengths:
        return "in a layer with two directions, or with norms over its states, only tensors that are known can be cut."
    return f"their axis is {' or '.join(lengths)} long."


def _refusal(layer: Layer[Any], family: Family[Any], found: Mapping[str, Shape]) -> AireError:
    """Names the suspicious tensors of a layer, and declares those on whose axes states can be found."""
    names = {layer.relative(name): shape for name, shape in found.items()}
    shown = [f"{name} {tuple(shape)}" for name, shape in names.items()]
    axes = {
        name: [axis for axis in range(len(shape)) if _cut(layer, family, shape, axis)] for name, shape in names.items()
    }
    examples = [f"{name}={fitting[0]}" for name, fitting in axes.items() if fitting]
    if examples:
        advice = (
            f"Say what they are: state_axis={examples[:SHOWN]} where that axis holds the states, 'NAME=none' where a "
            "tensor has nothing to do with them."
        )
    else:
        advice = (
            f"If they have nothing to do with the states, say so: state_axis=['{next(iter(names))}=none']. Otherwise the "
            f"layer cannot be cut: {_expected(layer, family)}"
        )
    return AireError(
        f"Layer {layer.name or '(top level)'} is not a plain {layer.family} layer: beside the tensors of one it has "
        f"{', '.join(shown[:SHOWN])}{f' and {len(shown) - SHOWN} more' if len(shown) > SHOWN else ''}, which may hold "
        f"its states. With only the known ones cut it would not fit together. {advice}"
    )
