"""Changed files are accepted or refused with a sentence, in bounded time and memory; see run.py for many more."""

import pytest
from faults.fuzz import fuzz
from faults.inputs import READERS

SEED, INPUTS = 12, 500


@pytest.mark.parametrize("reader", READERS)
def test_every_input_is_read_or_refused_with_a_sentence(reader, scratch):
    tally = fuzz(reader, SEED, range(INPUTS), scratch)
    number, fault = next(iter(tally.faults.items()), (None, ""))
    assert not tally.faults, f"{len(tally.faults)} of {INPUTS} inputs, the first is {number}: {fault}"
    assert tally.accepted > 10
    assert tally.refused > 10
