"""The search for the largest ratio within a bound."""

from __future__ import annotations

import pytest

from aireprune import AireError
from aireprune.pruning.search import largest_ratio


@pytest.mark.parametrize("answer", [0.0, 0.01, 0.37, 0.5, 0.98, 0.99])
def test_finds_the_known_answer_in_few_evaluations(answer: float) -> None:
    found = largest_ratio(lambda ratio: 0.99 if ratio <= answer + 1e-9 else 0.9, full=1.0, drop=0.01)
    assert found.ratio == pytest.approx(answer)
    assert len(found.tried) <= 8
    assert found.metric == (1.0 if answer == 0 else 0.99)


def test_a_negative_drop_is_refused() -> None:
    with pytest.raises(AireError, match="0 or more"):
        largest_ratio(lambda ratio: 1.0, 1.0, -0.1)
