"""Fixtures for all tests."""

from __future__ import annotations

import pytest
from helpers import GOLDEN_NAMES, Golden


@pytest.fixture(params=GOLDEN_NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)
