"""Odd requests are refused before anything is computed."""

from __future__ import annotations

from typing import Any

import pytest

from aireprune.errors import AireError
from aireprune.models.decoding.request import make_generate_request


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"weights": "int4"}, "weights='int4' is not known"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"temperature": -1.0}, "temperature=-1.0 is negative"),
        ({"top_k": -1}, "top_k=-1 is negative"),
        ({"top_p": 0.0}, "top_p=0.0 is no share"),
        ({"beams": 3}, "There is no argument beams=.*max_new_tokens"),
    ],
)
def test_refusals(choices: Any, message: str) -> None:
    with pytest.raises(AireError, match=message):
        make_generate_request(choices)
