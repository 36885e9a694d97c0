"""Number formats: bfloat16 as PyTorch rounds it, and what a cast must not do in silence."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aireprune.errors import AireError
from aireprune.files.dtypes import cast, code_of, decode, encode, narrow, widen


def test_every_bfloat16_survives_widening_and_narrowing():
    bits = np.arange(2**16, dtype=np.uint16)
    np.testing.assert_array_equal(narrow(widen(bits)), bits)


@given(st.lists(st.floats(width=32), min_size=1))
def test_narrowing_rounds_as_torch_does(values):
    array = np.array(values, np.float32)
    theirs = torch.from_numpy(array).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(widen(narrow(array)), theirs)


def test_nan_with_low_bits_stays_nan():
    array = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(widen(narrow(array))).all()


@pytest.mark.parametrize("code", ["F64", "F32", "F16", "BF16", "C64", "I64", "I8", "U16", "BOOL"])
def test_encode_inverts_decode(code):
    size = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "C64": 8, "I64": 8, "I8": 1, "U16": 2, "BOOL": 1}[code]
    raw = np.random.default_rng(0).integers(0, 2 if code == "BOOL" else 100, 6 * size).astype(np.uint8)
    np.testing.assert_array_equal(encode(decode(raw, code, (2, 3), "t"), code, "t"), raw)


def test_float16_overflow_is_an_error_but_infinity_is_carried():
    with pytest.raises(AireError, match="overflow"):
        cast(np.array([1e6], np.float32), np.dtype("<f2"), "t")
    assert np.isinf(cast(np.array([np.inf], np.float32), np.dtype("<f2"), "t")).all()


def test_complex_values_do_not_lose_their_imaginary_part():
    with pytest.raises(AireError, match="complex"):
        cast(np.array([1j]), np.dtype("<f4"), "t")


def test_type_without_a_code():
    with pytest.raises(AireError, match="cannot be stored"):
        code_of(np.dtype("U3"))
