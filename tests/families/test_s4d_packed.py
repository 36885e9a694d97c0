"""Packed rows: nothing but fillers is left out, and they come back bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import Arrays
from hypothesis import given
from hypothesis import strategies as st

from aireprune.arrays import instead
from aireprune.errors import AireError
from aireprune.families import Found, find_layers
from aireprune.families.s4d import S4D
from aireprune.families.s4d_packed import PACKED_ROWS, pack, packed_edits, unpack
from aireprune.families.s4d_parameters import FILLER

ROLES = tuple(FILLER)


def ragged(lengths: list[int], width: int, dtype: Any = np.float32) -> Arrays:
    """A layer whose rows have these lengths, and then fillers."""
    rng = np.random.default_rng(sum(lengths) + width)
    arrays = Arrays({"k.log_dt": rng.standard_normal(len(lengths)).astype(dtype)})
    for role in ROLES:
        values = rng.standard_normal((len(lengths), width, 2)[: 3 if role == "C" else 2]).astype(dtype)
        for row, length in zip(values, lengths, strict=True):
            row[length:] = FILLER[role]
        arrays[f"k.{role}"] = values
    return arrays


def stored(arrays: Arrays) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and configuration that a packed copy has."""
    new, entry = pack(S4D().find(arrays, {}), arrays)
    return Arrays({**arrays, **new}), entry


def same_bits(one: Any, other: Any) -> bool:
    return all(
        one.shapes[name] == other.shapes[name] and one[name].tobytes() == other[name].tobytes() for name in other.shapes
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 2), st.sampled_from(["f2", "f4", "f8"]))
def test_what_was_packed_comes_back_bit_by_bit(lengths: list[int], spare: int, dtype: str) -> None:
    width = max(lengths) + spare
    arrays = ragged(lengths, width, dtype)
    packed, entry = stored(arrays)
    if min(lengths) == width:
        assert entry == {}
        assert unpack(packed, entry) is None
        return
    assert entry == {PACKED_ROWS: {"k": {"width": width, "lengths": lengths}}}
    assert packed["k.C"].shape == (sum(lengths), 2)
    assert packed["k.A_imag"].shape == packed["k.log_A_real"].shape == (sum(lengths),)
    view = unpack(packed, entry)
    assert view is not None
    assert same_bits(view, arrays)


def test_silent_modes_that_are_no_fillers_are_stored() -> None:
    """Masked modes keep their poles and their place; a zero of the other sign is another number."""
    arrays = ragged([4, 4, 4], 4)
    arrays["k.C"][:, 2:] = 0
    arrays["k.log_A_real"][1, 2:], arrays["k.A_imag"][1, 2:] = FILLER["log_A_real"], -0.0
    arrays["k.log_A_real"][2, 2:], arrays["k.A_imag"][2, 2:] = FILLER["log_A_real"], 0.0
    assert stored(arrays)[1][PACKED_ROWS]["k"]["lengths"] == [4, 4, 2]


@pytest.mark.parametrize("b", [1 + 1j, -1 + 1j, -1 - 1j])
def test_silent_modes_of_a_stored_system_are_fillers(b: complex) -> None:
    arrays = ragged([4, 4, 4], 4)
    (layer,) = S4D().find(arrays, {})
    system = S4D().system(layer, arrays)
    silent = np.arange(4) >= np.array([4, 2, 0])[:, None]
    system = replace(
        system,
        b=np.where(silent[..., None], b, system.b),
        c=np.where(silent[:, None, None], 0, system.c),
    )
    new = S4D().store(layer, arrays, system)
    assert stored(Arrays({**arrays, **new}))[1][PACKED_ROWS]["k"]["lengths"] == [4, 2, 0]


def test_edits_of_the_view_are_edits_of_what_is_stored() -> None:
    before, after = ragged([3, 1, 0], 3), ragged([1, 2, 2], 2)
    packed, entry = stored(before)
    edits = {f"k.{role}": instead(after[f"k.{role}"]) for role in ROLES}
    expected, expected_entry = stored(Arrays({**after, "k.log_dt": before["k.log_dt"]}))
    for source, config in ((before, {}), (packed, entry)):
        arrays = unpack(source, config) or source
        found = Found("arrays", arrays, config, find_layers(arrays, config))
        new, found_entry = packed_edits(found, edits, keep=True)
        assert found_entry == expected_entry
        assert same_bits(Arrays({name: new[name](v) if name in new else v for name, v in source.items()}), expected)


@pytest.mark.parametrize("keep", [True, False])
def test_untouched_rows_stay_packed_or_are_written_out(keep: bool) -> None:
    arrays = ragged([3, 1, 0], 3)
    packed, entry = stored(arrays)
    view = unpack(packed, entry)
    assert view is not None
    edits, kept_entry = packed_edits(Found("arrays", view, entry, find_layers(view, entry)), {}, keep)
    written = Arrays({name: edits[name](v) if name in edits else v for name, v in packed.items()})
    assert same_bits(written, packed if keep else arrays)
    assert kept_entry == (entry if keep else {})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([1], "must name layers"),
        ({"k": 3}, "whole numbers from 0 to the width"),
        ({"k": {"width": 3, "lengths": [3, 1, 4]}}, "whole numbers from 0 to the width"),
        ({"k": {"width": 3, "lengths": [3, 1, -1]}}, "whole numbers from 0 to the width"),
        ({"k": {"width": 3, "lengths": [3, 1, 0.5]}}, "whole numbers from 0 to the width"),
        ({"k": {"width": 3, "lengths": [3, 1, 1]}}, r"k.C has shape \(4, 2\), expected \(5, 2\)"),
        ({"other": {"width": 3, "lengths": [3]}}, "other.C is missing"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(entry: Any, message: str) -> None:
    packed, _ = stored(ragged([3, 1, 0], 3))
    with pytest.raises(AireError, match=message):
        unpack(packed, {PACKED_ROWS: entry})
