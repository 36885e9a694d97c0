"""Freed memory: kept for the next request while a loop runs, given back afterwards."""

from __future__ import annotations

import resource
import sys

import numpy as np
import pytest

from aireprune.memory import freed_memory_kept, give_back

SIZE = 100 << 20  # bytes
FEWEST = SIZE // (4 << 20)  # faults if every page is a large one and some are already there


def faults() -> int:
    """Pages that a new array of SIZE bytes makes the system clear."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(SIZE, np.uint8)[::4096] = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_kept_inside_and_given_back_after():
    with freed_memory_kept():
        faults()
        assert faults() < FEWEST
        with freed_memory_kept():
            pass
        assert faults() < FEWEST  # the outer one still holds
    give_back()
    assert faults() > FEWEST


def test_a_failure_inside_is_passed_on():
    with pytest.raises(KeyError), freed_memory_kept():
        raise KeyError
